package contract_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/lockspec/workload"
	"github.com/lockcheck/lockcheck/reports/result"
)

// envInner makes TestInner what the tests below run as a test of its own.
const envInner = "CONTRACT_TEST_INNER"

// inner are calls of contract.Test whose outcome is looked at from outside.
func inner() map[string]*contract.Options {
	until := func(d time.Duration) time.Time { return time.Now().Add(d) }
	return map[string]*contract.Options{
		"pass":         {Cases: only("A01", "A02")},
		"fail":         {Cases: append(only("A01", "A02"), ending("fail"))},
		"error":        {Cases: append(only("A01", "A02"), ending("error"))},
		"inconclusive": {Cases: append(only("A01", "A02"), ending("inconclusive"))},
		"allowed":      {Cases: append(only("A01", "A02"), ending("inconclusive"))},
		"unsupported":  {Cases: append(only("A01", "A02"), ending("unsupported"))},
		"lacking":      {Cases: only("A01", "A02"), Profile: lockspec.FencedResource},
		"skip":         {Cases: append(only("A01", "A02"), ending("fail")), Skips: []contract.Skip{{Case: "Z01", Reason: "issue 17", Until: until(time.Hour)}}},
		"expired":      {Cases: only("A01", "A02"), Skips: []contract.Skip{{Case: "A01", Reason: "issue 17", Until: until(-time.Hour)}}},
		"wrong": {Cases: only("A01"), Skips: []contract.Skip{{Case: "A01", Until: until(time.Hour)}, {Case: "A01", Reason: "issue 17"},
			{Case: "Q99", Reason: "issue 17", Until: until(time.Hour)}}},
	}
}

func only(ids ...string) []contract.Case {
	return slices.DeleteFunc(contract.Cases(), func(c contract.Case) bool { return !slices.Contains(ids, c.ID) })
}

// ending is a case that takes a lock and then comes to the status.
func ending(status result.Status) contract.Case {
	return contract.Case{ID: "Z01", Group: "made-up", Name: "ends in " + string(status), Why: "it is made up", Level: contract.ClientLevel, Since: "1",
		Run: func(ctx context.Context, e *contract.Env) {
			t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), lockspec.Request{Key: e.Key("k"), Lease: e.Lease})
			_ = e.Release(ctx, t)
			if status == result.Fail {
				e.Fail(checker.Contract, "made-up", "it is made to fail")
			} else {
				e.Note(status, "it is made so")
			}
		}}
}

func TestInner(t *testing.T) {
	name := os.Getenv(envInner)
	if name == "" {
		t.Skip("only for the tests below")
	}
	o := inner()[name]
	o.Lease = labLease
	if name != "inconclusive" && name != "lacking" {
		o.AllowInconclusive = true // a machine that stalls is not what is tested
	}
	contract.Test(t, noticing{newLab(t, fault{})}, o)
}

// noticing records something that concerns every case whenever a history
// begins, the probes' too.
type noticing struct{ *lab }

func (noticing) Observe(rec *history.Recorder) {
	if rec != nil {
		workload.RecordStall(rec, "elsewhere", rec.Now(), rec.Now())
	}
}
func (noticing) Settle(context.Context) {}
func (noticing) Broken() []error        { return nil }

// outcome is what running TestInner came to.
type outcome struct {
	text string
	dir  string // it ran in
	ok   bool
}

func runInner(t *testing.T, name string, env []string, args ...string) outcome {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if len(args) == 0 || !strings.HasPrefix(args[0], "-test.run") {
		args = append([]string{"-test.run=^TestInner$"}, args...)
	}
	cmd := exec.CommandContext(ctx, self, append(args, "-test.v")...)
	cmd.Dir = t.TempDir()
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LOCKCHECK_") })
	cmd.Env = append(append(cmd.Env, envInner+"="+name), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return outcome{out.String(), cmd.Dir, err == nil}
}

func (o outcome) want(t *testing.T, ok bool, patterns ...string) {
	t.Helper()
	if o.ok != ok {
		t.Errorf("passed: %v, want %v", o.ok, ok)
	}
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(o.text) {
			t.Errorf("nothing matches %q", p)
		}
	}
	if t.Failed() {
		t.Log(o.text)
	}
}

func TestTestTellsEachCaseItsStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		ok   bool
		want []string
	}{
		"pass": {true, []string{`--- PASS: TestInner/acquire/A02_`, `--- PASS: TestInner/claims/P00_`, `ATTR +TestInner/acquire/A01_\S+ lockcheck.case A01`,
			`lockcheck.suite 1`, `lockcheck.seed \d+`}},
		"fail": {false, []string{`--- FAIL: TestInner/made-up/Z01_`, `contract/made-up: it is made to fail`, `why it matters: it is made up`,
			`again: LOCKCHECK_SEED=\d+ go test -run '\^TestInner\$/\^made-up\$/\^Z01_'`, `--- PASS: TestInner/acquire/A01_`}},
		"error":        {false, []string{`error: it is made so`}},
		"inconclusive": {false, []string{`inconclusive: it is made so`}},
		"allowed":      {true, []string{`inconclusive: it is made so`}},
		"unsupported":  {true, []string{`--- SKIP: TestInner/made-up/Z01_`, `unsupported: it is made so`}},
		"lacking":      {false, []string{`inconclusive: profile fenced, and no stale write was tried`}},
		"skip":         {true, []string{`--- SKIP: TestInner/made-up/Z01_`, `skipped: issue 17 \(until `, `partial: a claimed case was skipped`}},
		"expired":      {true, []string{`--- PASS: TestInner/acquire/A01_`, `note: the skip of A01 \(issue 17\) ended on .*: the case runs again`}},
		"wrong":        {false, []string{`skip of A01: it has no reason`, `skip of A01: it has no end`, `skip of "Q99": there is no such case`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runInner(t, name, nil).want(t, tc.ok, tc.want...)
		})
	}
}

func TestTestRunsWhatRunChooses(t *testing.T) {
	o := runInner(t, "fail", nil, "-test.run=^TestInner$/^acquire$/^A02_")
	o.want(t, true, `--- PASS: TestInner/acquire/A02_`)
	if strings.Contains(o.text, "A01_") || strings.Contains(o.text, "Z01_") {
		t.Errorf("others ran:\n%s", o.text)
	}
}

func TestTestTakesItsSeedFromTheEnvironment(t *testing.T) {
	runInner(t, "pass", []string{"LOCKCHECK_SEED=4711"}).want(t, true, `seed 4711`, `lockcheck.seed 4711`)
	runInner(t, "pass", []string{"LOCKCHECK_SEED=many"}).want(t, false, `LOCKCHECK_SEED="many" is no seed`)
}

// TestTestKeepsTheHistoryOfAFailure: in the folder that is asked for, complete,
// and of that case alone.
func TestTestKeepsTheHistoryOfAFailure(t *testing.T) {
	out := t.TempDir()
	for name, tc := range map[string]struct {
		env, args []string
		under     func(outcome) string
	}{
		"by default":           {nil, nil, func(o outcome) string { return filepath.Join(o.dir, "testdata", "lockcheck") }},
		"where LOCKCHECK_OUT":  {[]string{"LOCKCHECK_OUT=" + out}, nil, func(outcome) string { return out }},
		"with the artifacts":   {[]string{"LOCKCHECK_OUT=" + out}, []string{"-test.artifacts"}, func(o outcome) string { return filepath.Join(o.dir, "_artifacts") }},
		"artifacts turned off": {[]string{"LOCKCHECK_OUT=" + out}, []string{"-test.artifacts=false"}, func(outcome) string { return out }},
	} {
		t.Run(name, func(t *testing.T) {
			if len(tc.args) > 0 && flag.Lookup("test.artifacts") == nil {
				t.Skip("this Go has no ArtifactDir")
			}
			o := runInner(t, "fail", tc.env, tc.args...)
			o.want(t, false)
			found := regexp.MustCompile(`history: (\S+-Z01-\S+)`).FindStringSubmatch(o.text)
			if found == nil {
				t.Fatalf("no path:\n%s", o.text)
			}
			if dir, _ := filepath.EvalSymlinks(tc.under(o)); !strings.HasPrefix(found[1], dir) && !strings.HasPrefix(found[1], tc.under(o)) {
				t.Errorf("%s is not under %s", found[1], tc.under(o))
			}
			wholeHistory(t, found[1])
		})
	}
}

func wholeHistory(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := history.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	acquired := 0
	for _, e := range h.Events {
		if e.Case != "Z01" && e.Case != "" {
			t.Errorf("an event of %s", e.Case)
		}
		if e.Op == history.Acquire && e.Type == history.OK {
			acquired++
		}
	}
	if h.Truncated || acquired != 1 || h.Header.Class == "" {
		t.Errorf("%d acquisitions, truncated %v, header %+v", acquired, h.Truncated, h.Header)
	}
}

// TestContractWithProcesses is how a lock library tests itself with nodes that
// are processes: TestMain calls driver.Main first, and the harness starts this
// test binary once for each node.
func TestContractWithProcesses(t *testing.T) {
	const processLease = 2 * time.Second // long against what a busy machine does to processes
	l := newLab(t, fault{})
	p, err := contract.NewProcesses(t.Context(), contract.ProcessOptions{
		Node: driver.Config{URL: "skewed://" + l.addr}, Lease: processLease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	contract.Test(t, p, &contract.Options{Cases: only("A01", "A02", "B13"), Lease: processLease, AllowInconclusive: true})
}
