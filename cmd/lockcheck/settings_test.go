package main

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestUnknownVariables: a misspelt setting is told, and what the program tells
// itself is not.
func TestUnknownVariables(t *testing.T) {
	c := &cli{env: map[string]string{"LOCKCHECK_SED": "7", "LOCKCHECK_LEASE": "500ms", "LOCKCHECK_SERVE": "", "PATH": "x", "LOCKCHECK_SPAN_ACQUIRE": "a"}}
	c.run(t, "run", "--plan").want(t, result.ExitOK)
	if strings.Count(c.err, "warning") != 1 || !strings.Contains(c.err, "LOCKCHECK_SED") || !strings.Contains(c.err, `"LOCKCHECK_SEED"`) {
		t.Error(c.err)
	}
}

// TestTimeout: a run whose time is over was not interrupted by anybody; it did
// not bring enough.
func TestTimeout(t *testing.T) {
	c := (&cli{}).run(t, "run", "--lease", "500ms", "--timeout", "4s").want(t, result.ExitInconclusive)
	if r := c.report(t); r.Verdict != result.Inconclusive || r.Interrupted || len(r.Lacks) == 0 {
		t.Errorf("verdict %s, interrupted %v, lacks %v", r.Verdict, r.Interrupted, r.Lacks)
	}
	c = (&cli{}).run(t, "run", "exec:sleep 60", "--lease", "500ms", "--timeout", "300ms").want(t, result.ExitInconclusive)
	if r := c.report(t); r.Exit != result.ExitInconclusive || !strings.Contains(r.Notes[0], "--timeout 300ms") {
		t.Errorf("%d %q", r.Exit, r.Notes)
	}
}

// TestFailedStart: results.json tells of a run that came to nothing.
func TestFailedStart(t *testing.T) {
	c := (&cli{}).run(t, "run", "exec:echo Welcome", "--lease", "500ms", "--class", "session").want(t, result.ExitUnavailable)
	r := c.report(t)
	if r.Exit != result.ExitUnavailable || r.Verdict != result.Error || r.Target != "exec:echo Welcome" || r.Class != "session" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "Welcome") {
		t.Errorf("%+v", r)
	}
}

// TestRunsNotWritable: run folders go where they can be written.
func TestRunsNotWritable(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "taken")
	must(t, os.WriteFile(taken, nil, 0o644))
	c := (&cli{dir: filepath.Join(taken, "x")}).run(t, "run", "memory://", "--lease", "500ms").want(t, result.ExitUsage)
	if !strings.Contains(c.err, "--runs") || !strings.Contains(c.err, taken) {
		t.Error(c.err)
	}
}

// TestNothingRan: a run that tried nothing has verified nothing.
func TestNothingRan(t *testing.T) {
	(&cli{}).run(t, "run", "memory://", "--lease", "500ms", "--case", "X01").want(t, result.ExitInconclusive)
}

// TestAmended: the class and the bounds that the user names stand in the
// header, and count.
func TestAmended(t *testing.T) {
	c := (&cli{}).run(t, "run", "memory://", "--lease", "500ms", "--case", "A01,A02", "--class", "lease", "--bound", "takeover=1234ms", "--bound", "loss_ratio=0.5")
	h := headerOf(t, c)
	if h.Class != "lease" || h.Bounds.Takeover != 1234*time.Millisecond || h.Bounds.LossRatio != 0.5 {
		t.Errorf("%+v", h)
	}
	if h.Capacity != 1 || h.BootID == "" && runtime.GOOS == "linux" {
		t.Errorf("capacity %d, boot %q", h.Capacity, h.BootID)
	}
	c.run(t, "run", "--lease", "500ms", "--case", "A01", "--class", "memory").want(t, result.ExitUsage)
	if !strings.Contains(c.err, "hazard") {
		t.Error("hazards above the class were taken: " + c.err)
	}
	if r := c.report(t); r.Exit != result.ExitUsage {
		t.Errorf("exit %d in results.json", r.Exit)
	}
}

func headerOf(t *testing.T, c *cli) history.Header {
	t.Helper()
	f, err := os.Open(filepath.Join(c.dir, "latest", "history.jsonl"))
	if err != nil {
		t.Fatal(err, c.err)
	}
	defer f.Close()
	h, err := history.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return h.Header
}

// TestBaseline: what was verified once and is not tried any more fails the run;
// what the user filtered out is not missed.
func TestBaseline(t *testing.T) {
	c := (&cli{}).run(t, "run", "memory://", "--lease", "500ms", "--case", "A01,A02,A05").want(t, result.ExitOK)
	base := filepath.Join(t.TempDir(), "base.json")
	good, err := os.ReadFile(filepath.Join(c.dir, "latest", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(base, good, 0o644))
	c.run(t, "run", "memory://", "--lease", "500ms", "--case", "A01,A02", "--baseline", base).want(t, result.ExitOK)
	must(t, os.WriteFile(base, []byte(strings.Replace(string(good), `"id": "A05"`, `"id": "X01"`, 1)), 0o644))
	c.run(t, "run", "memory://", "--lease", "500ms", "--case", "A01,A02,X01", "--baseline", base).want(t, result.ExitGate)
	if !strings.Contains(c.out, "short of the baseline: X01 was pass") {
		t.Error(c.out)
	}
	if r := c.report(t); r.Verdict != result.Pass || r.Exit != result.ExitGate {
		t.Errorf("verdict %s, exit %d", r.Verdict, r.Exit)
	}
}

// TestKeep: the server stays up until the interrupt, and no longer.
func TestKeep(t *testing.T) {
	c := &cli{dir: t.TempDir()}
	var errs keeping
	interrupted, interrupt := context.WithCancel(t.Context())
	errs.kept = make(chan string, 1)
	d := &deps{in: strings.NewReader(""), out: io.Discard, err: &errs, getenv: func(string) string { return "" }, environ: func() []string { return nil },
		signals: func(context.Context) (context.Context, context.Context, func()) {
			return interrupted, context.Background(), func() {}
		}}
	ended := make(chan result.Exit, 1)
	go func() {
		ended <- execute([]string{"run", "--runs", c.dir, "--lease", "500ms", "--case", "A01,A02", "--keep"}, d)
	}()
	var at string
	select {
	case at = <-errs.kept:
	case code := <-ended:
		t.Fatalf("it ended with %d", code)
	}
	u, err := url.Parse(at)
	must(t, err)
	conn, err := net.Dial("tcp", u.Host)
	must(t, err)
	conn.Close()
	interrupt()
	if code := <-ended; code != result.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if conn, err := net.Dial("tcp", u.Host); err == nil {
		conn.Close()
		t.Error("the server is still there")
	}
}

// keeping waits for the line that says where what was kept is.
type keeping struct{ kept chan string }

func (k *keeping) Write(text []byte) (int, error) {
	if _, at, found := strings.Cut(string(text), "until interrupted: "); found {
		k.kept <- strings.TrimSpace(at)
	}
	return len(text), nil
}

// TestConfig: a file sets what neither a flag nor a variable does.
func TestConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lockcheck.yaml")
	write := func(text string) { must(t, os.WriteFile(path, []byte(text), 0o644)) }
	write("# of a test\ntarget: memory://\nseed: 7\nlease: 500ms\nsuite: [contract]\ncase: [A01, A02]\nprofile: exclusive\n")
	c := (&cli{env: map[string]string{"LOCKCHECK_PROFILE": "advisory"}}).run(t, "run", "--config", path, "--seed", "8").want(t, result.ExitOK)
	r := c.report(t)
	if r.Target != "memory://" || r.Seed != 8 || r.Profile != "advisory" || r.Count(result.Pass) != 3 {
		t.Errorf("target %s, seed %d, profile %s, %v", r.Target, r.Seed, r.Profile, r.Summary)
	}
	for _, test := range []struct{ name, text, says string }{
		{"unknown", "sed: 7\n", `line 1: unknown setting "sed"; did you mean "seed"?`},
		{"itself", "config: x\n", `unknown setting "config"`},
		{"value", "\nseed: seven\n", "line 2: seed"},
		{"nested", "lease:\n  min: 1\n", "line 2: a value is"},
		{"twice", "seed: 1\nseed: 2\n", "line 2: seed stands there twice"},
		{"two targets", "target: [a, b]\n", "one target"},
		{"a list", "- seed\n", "no mapping"},
		{"no YAML", "seed: [\n", "yaml"},
		{"redacted target", "target: redys://u:hunter2@h/\n", "redys://u:***@h/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			write(test.text)
			c := (&cli{}).run(t, "run", "--config", path).want(t, result.ExitUsage)
			if !strings.Contains(c.err, test.says) || strings.Count(c.err, "\n") != 1 {
				t.Errorf("it says %q", c.err)
			}
		})
	}
	(&cli{}).run(t, "run", "--config", path+".no").want(t, result.ExitUsage)
	write("")
	(&cli{}).run(t, "run", "memory://", "--config", path, "--plan", "--lease", "500ms").want(t, result.ExitOK)
}
