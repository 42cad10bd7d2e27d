// Package drivers tests the drivers for libraries that others wrote: that each
// keeps the protocol, and that the contract finds in its library what
// docs/findings.md says, no less and no more.
package drivers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/reports/result"
)

// driver is one way to use a library.
type driver struct {
	name    string // as the page of findings has it
	command func(*testing.T) string
	servers int
	broken  string // the one rule that driver-check finds broken
	args    string // of the run: the lease that shows what the page says
}

func TestRedis(t *testing.T) {
	t.Parallel() // with those on etcd, which mostly wait
	for _, d := range []driver{
		// It gives a server a twentieth of the lease to answer.
		{"redsync", program("redsync"), 1, "", "--lease 2s"},
		{"redsync of 3", program("redsync"), 3, "", "--lease 2s"},
		{"redis-py", python, 1, "", "--lease 500ms"},
		{"node-redlock", node(), 1, "", "--lease 500ms"},
		{"node-redlock using", node("--using"), 1, "", "--lease 200ms"}, // as long as the delay of a retry
	} {
		t.Run(d.name, func(t *testing.T) {
			d.test(t, func(ctx context.Context) (containers.Server, error) { return containers.Redis(ctx, nil) })
		})
	}
}

func TestEtcd(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{
		{"etcd", program("etcd"), 1, "", "--lease 2s"}, // it grants none that is shorter
		{"etcd shared", program("etcd", "-shared"), 1, "h", "--lease 2s --case A01,A02,A03"},
	} {
		t.Run(d.name, func(t *testing.T) {
			d.test(t, func(ctx context.Context) (containers.Server, error) { return containers.Etcd(ctx, nil) })
		})
	}
}

// test runs driver-check, and then the contract.
func (d driver) test(t *testing.T, start func(context.Context) (containers.Server, error)) {
	command, endpoints := d.command(t), serve(t, d.servers, start)
	code, out := lockcheck(t, append([]string{"driver-check", command}, endpoints...)...)
	if broken := brokenRules(out); broken != d.broken || (code != result.ExitOK) != (broken != "") {
		t.Errorf("driver-check exits with %d; it is to find broken: %q\n%s", code, d.broken, out)
	}
	page, err := os.ReadFile("../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	if library := version.FindString(out); !strings.Contains(string(page), library) {
		t.Skipf("docs/findings.md is about another version than %q", library)
	}
	compare(t, findings(string(page), d.name), func() *result.Report {
		return contract(t, slices.Concat([]string{"exec:" + command}, strings.Fields(d.args), endpoints))
	})
}

func brokenRules(out string) (letters string) {
	for _, m := range brokenRule.FindAllStringSubmatch(out, -1) {
		letters += m[1]
	}
	return letters
}

// What driver-check prints: who speaks, and which rule is broken.
var (
	version    = regexp.MustCompile(`(?m)^.*? v?[0-9]+\.[0-9]+\.[0-9]+[-.a-z0-9]*`)
	brokenRule = regexp.MustCompile(`(?m)^([a-z]+) +broken`)
)

// compare tells how what fails differs from what the page says. What is
// undecided on this machine is neither; and what one run did not show, because
// the machine was slow just then, another may.
func compare(t *testing.T, known []string, run func() *result.Report) {
	t.Helper()
	unseen := slices.Clone(known)
	for range 3 {
		r := run()
		for _, c := range r.Cases {
			switch c.Status {
			case result.Fail, result.Error:
				unseen = slices.DeleteFunc(unseen, func(id string) bool { return id == c.ID })
				if !slices.Contains(known, c.ID) {
					t.Errorf("%s %s, which docs/findings.md does not say%s", c.ID, c.Status, why(r, c.ID))
				}
			case result.Inconclusive:
				t.Logf("%s is inconclusive: %s", c.ID, c.Reason)
			}
		}
		if len(unseen) == 0 {
			return
		}
	}
	t.Errorf("%s did not fail; docs/findings.md says that they do", strings.Join(unseen, ", "))
}

func why(r *result.Report, id string) (text string) {
	for _, f := range r.Findings {
		if f.Case == id {
			text += fmt.Sprintf("\n%s/%s: %s", f.Kind, f.Rule, f.Message)
		}
	}
	return text
}

// finding is a heading of docs/findings.md, and the line under it that says
// whose finding it is, and which cases fail: "redsync; etcd: G01, G03".
var finding = regexp.MustCompile("(?m)^### .*\n\n`([^:`]+): ([^`]+)`")

func findings(page, name string) (cases []string) {
	for _, m := range finding.FindAllStringSubmatch(page, -1) {
		if slices.Contains(strings.Split(m[1], "; "), name) {
			cases = append(cases, strings.Split(m[2], ", ")...)
		}
	}
	return cases
}

// contract is what the suite says of the lock.
func contract(t *testing.T, args []string) *result.Report {
	t.Helper()
	runs := t.TempDir()
	code, out := lockcheck(t, append([]string{"run", "--suite", "contract", "--seed", "1", "--runs", runs}, args...)...)
	file, err := os.ReadFile(filepath.Join(runs, "latest", "results.json"))
	r := new(result.Report)
	if err == nil {
		err = json.Unmarshal(file, r)
	}
	if err != nil || len(r.Cases) == 0 {
		t.Fatalf("run exits with %d and leaves no results (%v):\n%s", code, err, out)
	}
	return r
}

// serve starts the servers, and is how lockcheck is told of them.
func serve(t *testing.T, n int, start func(context.Context) (containers.Server, error)) (endpoints []string) {
	t.Helper()
	for range n {
		s, err := start(t.Context())
		if missing := new(containers.MissingError); errors.As(err, &missing) {
			lacks(t, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		endpoints = append(endpoints, "--endpoint", s.Addr())
	}
	return endpoints
}

// lacks ends a test that needs what this machine lacks.
func lacks(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("LOCKCHECK_REQUIRE") == "all" {
		t.Fatal("required: ", err)
	}
	t.Skip(err, "; LOCKCHECK_REQUIRE=all makes that a failure")
}

// program is the command of a driver in Go.
func program(folder string, args ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "driver")
		c := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
		c.Dir, c.Env = folder, append(os.Environ(), "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		return strings.Join(append([]string{path}, args...), " ")
	}
}

// python is the command of the driver in Python, by the first interpreter that
// has the library.
func python(t *testing.T) string {
	t.Helper()
	var err error
	for _, path := range []string{"python3", "/usr/bin/python3"} {
		if err = exec.CommandContext(t.Context(), path, "-c", "import redis").Run(); err == nil {
			return path + " " + absolute(t, "python-redis/driver.py")
		}
	}
	lacks(t, fmt.Errorf("no python3 that has redis (Debian: apt-get install python3-redis): %w", err))
	return ""
}

// node is the command of the driver in JavaScript, with what its package-lock
// names.
func node(args ...string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		const folder = "node-redlock"
		if installed, err := os.ReadFile(folder + "/node_modules/redlock/package.json"); err != nil || !strings.Contains(string(installed), "5.0.0-beta.2") {
			c := exec.CommandContext(t.Context(), "npm", "ci", "--no-fund", "--no-audit")
			c.Dir = folder
			if out, err := c.CombinedOutput(); err != nil {
				lacks(t, fmt.Errorf("npm ci: %w: %s", err, out))
			}
		}
		return strings.Join(append([]string{"node", absolute(t, folder+"/driver.js")}, args...), " ")
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built is the lockcheck of this checkout, made once.
var built = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "lockcheck")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "lockcheck")
	c := exec.Command("go", "build", "-o", path, "./cmd/lockcheck")
	c.Dir, c.Env = "../..", append(os.Environ(), "GOWORK=")
	if out, err := c.CombinedOutput(); err != nil {
		return path, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, _ := built(); path != "" {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// lockcheck runs it until there is a verdict: a machine that stalls has none,
// and may take long to start a driver.
func lockcheck(t *testing.T, args ...string) (code result.Exit, out string) {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c := exec.CommandContext(t.Context(), path, args...)
		said, err := c.CombinedOutput()
		if c.ProcessState == nil {
			t.Fatal(err)
		}
		code, out = result.Exit(c.ProcessState.ExitCode()), string(said)
		if code != result.ExitInconclusive && code != result.ExitUnavailable {
			break
		}
		t.Logf("no verdict (exit %d), again", code)
	}
	return code, out
}
