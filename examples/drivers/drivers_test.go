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

func redis(ctx context.Context) (containers.Server, error) { return containers.Redis(ctx, nil) }
func etcd(ctx context.Context) (containers.Server, error)  { return containers.Etcd(ctx, nil) }

// TestDrivers: one after the other, as each takes its leases by the clock.
func TestDrivers(t *testing.T) {
	for _, d := range []struct {
		name    string // as a heading of the findings has it
		servers int
		start   func(context.Context) (containers.Server, error)
		command func(*testing.T) string
	}{
		{"redsync", 1, redis, program("redsync")},
		{"redsync of 3", 3, redis, program("redsync")},
	} {
		t.Run(d.name, func(t *testing.T) {
			command := d.command(t)
			endpoints := serve(t, d.servers, d.start)
			if code, out := lockcheck(t, append([]string{"driver-check", command}, endpoints...)...); code != result.ExitOK {
				t.Errorf("driver-check exits with %d:\n%s", code, out)
			}
			compare(t, d.name, contract(t, command, endpoints))
		})
	}
}

// compare tells how the findings differ from what the page says. What was
// undecided on this machine is neither.
func compare(t *testing.T, name string, r *result.Report) {
	t.Helper()
	known := findings(t, name)
	for _, c := range r.Cases {
		switch c.Status {
		case result.Fail, result.Error:
			if !slices.Contains(known, c.ID) {
				t.Errorf("%s %s, which docs/findings.md does not say%s", c.ID, c.Status, why(r, c.ID))
			}
		case result.Inconclusive:
			t.Logf("%s is inconclusive: %s", c.ID, c.Reason)
		default:
			if slices.Contains(known, c.ID) {
				t.Errorf("%s is %s; docs/findings.md says that it fails", c.ID, c.Status)
			}
		}
	}
}

func why(r *result.Report, id string) (text string) {
	for _, f := range r.Findings {
		if f.Case == id {
			text += fmt.Sprintf("\n%s/%s: %s", f.Kind, f.Rule, f.Message)
		}
	}
	return text
}

// finding is a heading of docs/findings.md: "### redsync, G01: what happens".
var finding = regexp.MustCompile(`(?m)^### ([^:]+), ([A-Z][0-9]{2}):`)

func findings(t *testing.T, name string) (cases []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range finding.FindAllStringSubmatch(string(page), -1) {
		if slices.Contains(strings.Split(m[1], " and "), name) {
			cases = append(cases, m[2])
		}
	}
	return cases
}

// contract is what the suite says of the lock.
func contract(t *testing.T, command string, endpoints []string) *result.Report {
	t.Helper()
	runs := t.TempDir()
	code, out := lockcheck(t, append([]string{"run", "exec:" + command, "--suite", "contract", "--seed", "1", "--runs", runs}, endpoints...)...)
	file, err := os.ReadFile(filepath.Join(runs, "latest", "results.json"))
	r := new(result.Report)
	if err == nil {
		err = json.Unmarshal(file, r)
	}
	if err != nil || len(r.Cases) < 20 {
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
func program(folder string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "driver")
		run(t, folder, "GOWORK=off", "go", "build", "-o", path, ".")
		return path
	}
}

// run is for commands that prepare a test.
func run(t *testing.T, folder, env string, command ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), command[0], command[1:]...)
	c.Dir, c.Env = folder, append(os.Environ(), env)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

// built is the folder of the lockcheck of this checkout, made once.
var built = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "lockcheck") })

func TestMain(m *testing.M) {
	code := m.Run()
	if folder, err := built(); err == nil {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// lockcheck runs it until there is a verdict: a machine that stalls has none,
// and may take long to start a driver.
func lockcheck(t *testing.T, args ...string) (code result.Exit, out string) {
	t.Helper()
	folder, err := built()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "lockcheck")
	if _, err := os.Stat(path); err != nil {
		run(t, "../..", "GOWORK=", "go", "build", "-o", path, "./cmd/lockcheck")
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
