package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec/workload"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestMain lets the test binary be what the command starts: a driver, the
// guard, the embedded server, or one of the bad drivers of these tests.
func TestMain(m *testing.M) {
	if mode := os.Getenv(envBad); mode != "" {
		badDriver(mode)
	}
	serveIfAsked()
	// A binary with the race detector sleeps for a second before it exits; the
	// children of these tests are it.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// cli is one call of the command line in this process.
type cli struct {
	dir  string
	env  map[string]string
	in   string
	gate workload.Gate

	code     result.Exit
	out, err string
}

// run calls the command line; run folders go to the test's own directory.
func (c *cli) run(t *testing.T, args ...string) *cli {
	t.Helper()
	if c.dir == "" {
		c.dir = t.TempDir()
	}
	var out, errs bytes.Buffer
	d := &deps{in: strings.NewReader(c.in), out: &out, err: &errs, gate: c.gate, signals: noSignals,
		getenv: func(name string) string { return c.env[name] },
		environ: func() (pairs []string) {
			for name, value := range c.env {
				pairs = append(pairs, name+"="+value)
			}
			return pairs
		}}
	if len(args) > 0 && args[0] == "run" {
		args = append(args, "--runs", c.dir)
	}
	c.code = execute(args, d)
	c.out, c.err = out.String(), errs.String()
	return c
}

func noSignals(ctx context.Context) (context.Context, context.Context, func()) {
	ctx, stop := context.WithCancel(ctx)
	return ctx, context.Background(), stop
}

// want fails the test with all that was said if the code is another.
func (c *cli) want(t *testing.T, codes ...result.Exit) *cli {
	t.Helper()
	if !slices.Contains(codes, c.code) {
		t.Fatalf("exit code %d, want %d\n--- stdout\n%s\n--- stderr\n%s", c.code, codes, c.out, c.err)
	}
	return c
}

func (c *cli) report(t *testing.T) *result.Report {
	t.Helper()
	r, err := result.OpenFolder(filepath.Join(c.dir, "latest")).ReadReport()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, c.out, c.err)
	}
	return r
}

func caseOf(t *testing.T, r *result.Report, id string) *result.Case {
	t.Helper()
	for i := range r.Cases {
		if r.Cases[i].ID == id {
			return &r.Cases[i]
		}
	}
	t.Fatalf("the report has no case %s", id)
	return nil
}

// TestRun is the story: the whole run on the embedded server, and the verdict
// judged again from its folder.
func TestRun(t *testing.T) {
	c := (&cli{}).run(t, "run", "--seed", "1").want(t, result.ExitOK)
	r := c.report(t)
	for i := range r.Cases {
		if k := &r.Cases[i]; k.ID != "X02" && k.Status != result.Pass && k.Status != result.Unsupported {
			t.Errorf("%s: %s: %s", k.ID, k.Status, k.Reason)
		}
	}
	x := caseOf(t, r, "X02")
	if x.Status != result.Hazard || len(x.Hazards) == 0 {
		t.Fatalf("X02: %s: %s", x.Status, x.Reason)
	}
	proven := false
	for _, h := range x.Hazards {
		if h.Name != "pause" || h.Contained["a"] != "true" || h.Contained["b"] != "true" || h.Contained["c"] != "true" || h.Contained["d"] == "false" {
			t.Errorf("hazard %s of %v: %v", h.Name, h.Pair, h.Contained)
		}
		for _, e := range h.Evidence {
			proven = proven || e.Part == "d" && h.Contained["d"] == "true" && len(e.Events) > 1
		}
	}
	if !proven {
		t.Error("no pair shows a stale write that was refused")
	}
	if x.StaleWrites.Tried == 0 || x.StaleWrites.Tried != x.StaleWrites.Refused {
		t.Errorf("stale writes: %+v", x.StaleWrites)
	}
	for _, says := range []string{"two orders got invoice", "stale writes tried", "two believed at once", "takeover:", "learnt of its loss"} {
		if !strings.Contains(c.out, says) {
			t.Errorf("the report does not say %q:\n%s", says, c.out)
		}
	}
	if strings.Contains(c.out, "\x1b") || strings.Contains(c.err, "\x1b") || strings.Contains(c.err, "\r") {
		t.Error("output that is no terminal has escapes")
	}
	again := (&cli{dir: c.dir}).run(t, "check", filepath.Join(c.dir, "latest")).want(t, result.ExitOK)
	if !strings.Contains(again.out, "agrees with the recorded verdict (pass)") {
		t.Error(again.out)
	}
	checkFolder(t, filepath.Join(c.dir, "latest"))
}

func checkFolder(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"run.json", "schedule.json", "results.json"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !json.Valid(data) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"history.jsonl", "probes.jsonl", "logs/n1.log", "logs/server.log"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestPlan: the schedule is decided by the seed alone, and it is what the run
// performs.
func TestPlan(t *testing.T) {
	first := (&cli{}).run(t, "run", "--seed", "7", "--lease", "500ms", "--plan").want(t, result.ExitOK)
	again := (&cli{}).run(t, "run", "--seed", "7", "--lease", "500ms", "--plan").want(t, result.ExitOK)
	other := (&cli{}).run(t, "run", "--seed", "8", "--lease", "500ms", "--plan").want(t, result.ExitOK)
	if first.out != again.out {
		t.Error("one seed, two schedules")
	}
	if first.out == other.out {
		t.Error("two seeds, one schedule")
	}
	var p plan
	if err := json.Unmarshal([]byte(first.out), &p); err != nil || len(p.Cases) == 0 {
		t.Errorf("%v: %s", err, first.out)
	}
}

// TestRegisterWithoutCompare: a resource that compares nothing does not fence,
// and the run must say that it is the resource.
func TestRegisterWithoutCompare(t *testing.T) {
	c := (&cli{gate: func(int64, int64) bool { return true }}).run(t, "run", "--seed", "1", "--case", "X02").want(t, result.ExitViolation)
	r := c.report(t)
	if f := r.Findings[0]; f.Kind != "fencing" || f.Rule != "register-accepted-stale-token" || f.Level != "resource" {
		t.Errorf("first finding: %+v", f)
	}
	again := (&cli{dir: c.dir}).run(t, "check", filepath.Join(c.dir, "latest")).want(t, result.ExitViolation)
	if !strings.Contains(again.out, "agrees with the recorded verdict (fail)") {
		t.Error(again.out)
	}
}

// TestInside: the memory backend inside the process keeps the contract, and
// what it has no power for is unsupported by name.
func TestInside(t *testing.T) {
	c := (&cli{}).run(t, "run", "memory://", "--seed", "1", "-v").want(t, result.ExitOK)
	if k := caseOf(t, c.report(t), "X01"); k.Status != result.Unsupported || !strings.Contains(k.Reason, "harness cannot") {
		t.Errorf("X01: %s: %s", k.Status, k.Reason)
	}
}

// aloneWith runs the calling test again, in a process of its own with more in
// its environment.
func aloneWith(t *testing.T, env ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
