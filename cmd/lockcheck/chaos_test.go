package main

import (
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/cmd/lockcheck/reproduce"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// full says whether what is too long for every change runs too.
func full() bool { return os.Getenv("LOCKCHECK_FULL") != "" }

// chaosSeed decides which third of the scenarios a day tries, and how.
func chaosSeed(t *testing.T) int64 {
	if n, err := strconv.ParseInt(os.Getenv("LOCKCHECK_CHAOS_SEED"), 10, 64); err == nil {
		return n
	}
	return time.Now().Unix() / 86400
}

// third are the scenarios of a seed, a third of all; all of them where
// everything runs.
func third(seed int64) []string {
	var ids []string
	for _, c := range chaos.Cases() {
		h := fnv.New32a()
		h.Write([]byte(c.ID))
		if full() || (int64(h.Sum32())+seed)%3 == 0 {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// TestChaos: on real servers every scenario ends as the table says that it does
// for the class. A machine that stalls leaves some undecided.
func TestChaos(t *testing.T) {
	seed := chaosSeed(t)
	targets := []string{"embedded", "up:redis", "up:redis?class=replicated-lease", "up:redlock", "up:postgres"}
	if full() {
		targets = append(targets, "up:azurite")
	}
	for _, target := range targets {
		t.Run(target, func(t *testing.T) {
			c := &cli{}
			c.run(t, "run", target, "--suite", "chaos", "--case", strings.Join(third(seed), ","), "--seed", strconv.FormatInt(seed, 10)).
				want(t, result.ExitOK, result.ExitInconclusive)
			expected(t, c.report(t))
		})
	}
}

// expected compares what became of each scenario with the table.
func expected(t *testing.T, r *result.Report) {
	t.Helper()
	ran := 0
	for i := range r.Cases {
		c := &r.Cases[i]
		letter := chaos.Expected(c.ID, r.Class)
		switch {
		case letter == 0 || c.Status == result.NotRun || c.Status == result.Unsupported:
		case c.Status == result.Inconclusive:
			t.Logf("%s: %s: %s", c.ID, c.Status, c.Reason)
		case c.Status == result.Pass, c.Status == result.Hazard && (letter == 'X' || letter == 'B'):
			ran++
		default:
			t.Errorf("%s ended as %s where %c is expected of class %s: %s", c.ID, c.Status, letter, r.Class, c.Reason)
		}
	}
	if ran == 0 {
		t.Error("no scenario was decided")
	}
}

// TestStoryTable: every story that was promised is there, and names targets and
// cases that there are.
func TestStoryTable(t *testing.T) {
	known := map[string]bool{}
	for _, c := range append(contract.Cases(), chaos.Cases()...) {
		known[c.ID] = true
	}
	names := map[string]bool{}
	for _, s := range reproduce.Stories() {
		if names[s.Name] || s.Title == "" || s.Source == "" || s.Cure == "" {
			t.Errorf("story %s: twice, or not told", s.Name)
		}
		names[s.Name] = true
		for _, p := range []reproduce.Play{s.Shown, s.Cured} {
			if p.Own == nil && !known[p.Case] || p.Sign == nil {
				t.Errorf("story %s: case %q", s.Name, p.Case)
			}
			if p.Start == nil {
				if _, err := parseTarget(p.Target); err != nil {
					t.Errorf("story %s: %v", s.Name, err)
				}
			}
		}
	}
	for _, name := range strings.Fields(`redis-failover redis-restart-no-persistence redis-eviction redis-clock-jump
		redlock-clock-jump redlock-node-restart pause-past-lease late-reply delayed-write postgres-failover postgres-half-open
		pgbouncer-transaction azure-renew-after-expiry azure-broken-lease release-deletes-successor lost-reply-orphan
		cancelled-acquire-orphan`) {
		if !names[name] {
			t.Errorf("no story %s", name)
		}
	}
}

// TestStories: each is shown, and its cure helps. In every run those of the
// embedded server, and one more that changes from day to day.
func TestStories(t *testing.T) {
	all := reproduce.Stories()
	day := int(chaosSeed(t)) % len(all)
	for i, s := range all {
		quick := !strings.Contains(s.Shown.Target, "up:") && s.Shown.Start == nil
		if !full() && !quick && i != day {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			for _, row := range []struct {
				args []string
				word string
			}{{[]string{"reproduce", s.Name}, "SHOWN: "}, {[]string{"reproduce", s.Name, "--cured"}, "CURED: "}} {
				c := (&cli{}).run(t, row.args...).want(t, result.ExitOK, result.ExitInconclusive)
				if c.code == result.ExitInconclusive {
					t.Logf("not decided on this machine: %s", c.out)
				} else if !strings.Contains(c.out, row.word) {
					t.Errorf("it does not say %s\n%s", row.word, c.out)
				}
			}
		})
	}
}
