package main

import (
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

var _ interface {
	contract.NodeHost
	contract.TrafficCounter
	contract.Interferer
	contract.Evicter
	contract.Restarter
	contract.Stopper
	contract.Inspector
	contract.Pinger
} = redlockHarness{}

// TestUpRedlock: cases of every power, on three servers that the run starts.
func TestUpRedlock(t *testing.T) {
	ownRedis(t, nil) // skips where there is none
	ids := []string{"A01", "A10", "A12", "B03", "B07", "E03", "E09", "F12", "H01", "X01"}
	// A machine that stalls leaves cases undecided; that they all pass is for a
	// quiet one to show.
	r := (&cli{}).run(t, "run", "up:redlock", "--case", strings.Join(ids, ",")).want(t, result.ExitOK, result.ExitInconclusive).report(t)
	passed := 0
	for _, id := range ids {
		switch k := caseOf(t, r, id); k.Status {
		case result.Pass:
			passed++
		case result.Inconclusive:
			t.Logf("%s: %s: %s", id, k.Status, k.Reason)
		default:
			t.Errorf("%s: %s: %s", id, k.Status, k.Reason)
		}
	}
	if passed < len(ids)/2 {
		t.Errorf("only %d cases passed", passed)
	}
}

// TestRedlockNotOurs: servers that the run did not start are left as they were.
func TestRedlockNotOurs(t *testing.T) {
	var addrs []string
	for range 3 {
		addrs = append(addrs, ownRedis(t, &containers.RedisOptions{Password: "hunter2"}).Addr())
	}
	c := (&cli{}).run(t, "run", "redlock://:hunter2@"+strings.Join(addrs, ",")+"/1", "--case", "A01,A02,H01").want(t, result.ExitOK, result.ExitInconclusive)
	r := c.report(t)
	if k := caseOf(t, r, "H01"); k.Status != result.Unsupported {
		t.Errorf("H01: %s: %s", k.Status, k.Reason)
	}
	for _, addr := range addrs {
		if n := say(t, addr, "AUTH hunter2", "SELECT 1", "DBSIZE"); n != ":0" {
			t.Errorf("%s: DBSIZE %s afterwards", addr, n)
		}
	}
	told(t, c, "hunter2")

	for _, test := range []struct{ target, says string }{
		{"redlock://:hunter2@" + strings.Join(addrs[:2], ","), "3"},
		{"redlock://:hunter2@" + addrs[0] + "," + addrs[0] + "," + addrs[1], "twice"},
		{"redlock://:hunter2@" + strings.Join(addrs, ",") + "/?lese=1s", `"lese"`},
		{"redlock://:hunter2@" + strings.Join(addrs, ",") + "/?wait=1", "replicas"},
		{"redlock://:hunter22@" + strings.Join(addrs, ","), "USER:PASSWORD"},
	} {
		c := (&cli{}).run(t, "run", test.target, "--lease", "500ms").want(t, result.ExitUsage)
		if !strings.Contains(c.err, test.says) {
			t.Errorf("%s: it does not say %s: %s", redact(test.target), test.says, c.err)
		}
		told(t, c, "hunter2")
	}
}
