package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/reports/result"
)

// python is the command of the example driver. Without python3 the test is
// skipped, unless everything is required. -S leaves out what a machine adds to
// the standard library, and the time that it takes.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("LOCKCHECK_REQUIRE") == "all" {
			t.Fatal("python3 is required and missing: ", err)
		}
		t.Skip("python3 is missing; LOCKCHECK_REQUIRE=all makes that a failure")
	}
	// What is on the path may be a script that looks for the interpreter, at
	// many times its cost.
	if real, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output(); err == nil {
		path = strings.TrimSpace(string(real))
	}
	return path + " -S ../../examples/drivers/python/driver.py"
}

// TestPythonExample: the example driver keeps every rule of the protocol, and
// its lock every promise.
func TestPythonExample(t *testing.T) {
	command, server := python(t), served(t)
	c := (&cli{}).run(t, "driver-check", command, "--endpoint", server).want(t, result.ExitOK)
	if !strings.Contains(c.out, "13 rules kept, 0 broken, 1 not tried") || strings.Contains(c.out, "not tried:") {
		t.Error(c.out)
	}
	verdictOf(t, "run", "exec:"+command, "--endpoint", server, "--seed", "1").want(t, result.ExitOK)
}

// TestPythonWrong: each deliberate fault of the example is found, for the right
// reason. Which of two findings comes first may depend on who looks first.
func TestPythonWrong(t *testing.T) {
	command, server := python(t), served(t)
	for _, test := range []struct {
		wrong, only string
		right       []string // kind/rule: part of the message
	}{
		{"release-without-owner", "B04", []string{"ownership/late-release-freed-successor: freed the lock of"}},
		{"steals", "A02", []string{"overlap/entitled: at once"}},
		{"constant-token", "A01", []string{"contract/false-claim: claim fencing is false: grant 2 got token 1 after token 1"}},
		{"silent-loss", "A01", []string{"contract/false-claim: claim loss-signal is false"}},
		{"no-renewal", "A01", []string{"contract/false-claim: claim auto-renew is false", "renewal/lost: "}},
		{"blind-hold-check", "A01", []string{"contract/false-claim: claim hold-check is false"}},
		{"promises-double", "A01", []string{"overlap/entitled: /lease"}},
	} {
		t.Run(test.wrong, func(t *testing.T) {
			c := verdictOf(t, "run", "exec:"+command+" --wrong "+test.wrong, "--endpoint", server, "--seed", "1", "--case", test.only).want(t, result.ExitViolation)
			for _, f := range c.report(t).Findings {
				for _, right := range test.right {
					rule, says, _ := strings.Cut(right, ": ")
					if string(f.Kind)+"/"+f.Rule == rule && strings.Contains(f.Message, says) {
						return
					}
				}
			}
			t.Errorf("no finding %q:\n%s", test.right, c.out)
		})
	}
}

// verdictOf runs the command until there is a verdict: on a machine that stalls
// for longer than a lease there is none, and a driver may be slow to start.
func verdictOf(t *testing.T, args ...string) *cli {
	t.Helper()
	c := &cli{}
	for range 4 {
		if c.run(t, args...); c.code != result.ExitInconclusive && c.code != result.ExitUnavailable {
			break
		}
		t.Logf("no verdict (exit %d), again", c.code)
	}
	return c
}

// TestDriverCheck: the exit codes, and the report as JSON.
func TestDriverCheck(t *testing.T) {
	for _, test := range []struct {
		args []string
		code result.Exit
		says string
	}{
		{[]string{"driver-check"}, result.ExitUsage, "arg"},
		{[]string{"driver-check", " "}, result.ExitUsage, "COMMAND"},
		{[]string{"driver-check", "true", "--lease", "-1s"}, result.ExitUsage, "negative"},
		{[]string{"driver-check", "exit 3"}, result.ExitUnavailable, "hello"},
		{[]string{"driver-check", "echo Welcome"}, result.ExitUnavailable, "Welcome"},
		{[]string{"driver-check", "/nonexistent/driver"}, result.ExitUnavailable, "/nonexistent/driver"},
	} {
		c := (&cli{}).run(t, test.args...).want(t, test.code)
		if !strings.Contains(c.err, test.says) {
			t.Errorf("%q: it does not say %q: %s", test.args, test.says, c.err)
		}
	}
	// Wrong in the lock, and by two rules of the protocol in the driver.
	command, server := python(t), served(t)
	c := (&cli{}).run(t, "driver-check", command+" --wrong blind-hold-check", "--endpoint", server, "--json").want(t, result.ExitViolation)
	for _, says := range []string{`"schema": "lockcheck.driver-check/1"`, `"verdict": "broken"`, `"standing": "broken"`, `"do": "`} {
		if !strings.Contains(c.out, says) {
			t.Errorf("it does not say %s:\n%s", says, c.out)
		}
	}
}
