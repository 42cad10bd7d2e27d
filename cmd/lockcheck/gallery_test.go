package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lockcheck/lockcheck/reference/broken"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestGallery: a run with processes of their own catches each broken lock as
// its row says, and judges the folder the same again. (That the whole contract
// finds nothing else is tested beside the cases.) LOCKCHECK_FULL=1 runs all
// cases of both suites, and no other may fail of which the row does not say why.
func TestGallery(t *testing.T) {
	for _, l := range broken.Locks() {
		t.Run(l.Name, func(t *testing.T) {
			args := []string{"run", "broken://" + l.Name, "--seed", "1"}
			if os.Getenv("LOCKCHECK_FULL") == "" {
				for _, f := range l.Caught {
					args = append(args, "--case", f.Case)
				}
			}
			c := (&cli{}).run(t, args...)
			for tries := 0; c.code == result.ExitInconclusive && tries < 2; tries++ { // this machine stalled
				c = (&cli{}).run(t, args...)
			}
			c.want(t, result.ExitViolation)
			r := c.report(t)
			for _, f := range l.Caught {
				if !foundIn(r, f) {
					t.Errorf("no finding %+v in %+v", f, r.Findings)
				}
			}
			onlyExplained(t, l, r)
			(&cli{dir: c.dir}).run(t, "check", filepath.Join(c.dir, "latest")).want(t, result.ExitViolation)
		})
	}
}

func foundIn(r *result.Report, want broken.Finding) bool {
	for _, f := range r.Findings {
		if f.Case == want.Case && string(f.Kind) == want.Kind && f.Rule == want.Rule {
			return true
		}
	}
	return false
}

// onlyExplained: a case fails only where the row says so.
func onlyExplained(t *testing.T, l broken.Lock, r *result.Report) {
	caught := map[string]bool{}
	for _, f := range l.Caught {
		caught[f.Case] = true
	}
	for _, c := range r.Cases {
		if _, known := l.Also[c.ID]; c.Status == result.Fail && !caught[c.ID] && !known {
			t.Errorf("%s failed too: %s", c.ID, c.Reason)
		}
	}
}
