package checker

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec"
)

func TestLinearization(t *testing.T) {
	events := script(t, `
		0   p1 acquire
		5   p2 acquire
		6   p2 acquire ok t2 lease=20 token=2
		7   p1 acquire ok t1 lease=4 token=1
		8   p2 release t2
		9   p2 release t2 ok`)
	got := strings.Join(Linearization(head(lockspec.Leased), Model{Kind: ModelFenced}, events), "\n")
	if i, j := strings.Index(got, "t1 (token 1) granted at 0.000s"), strings.Index(got, "t2 (token 2) granted at"); i < 0 || j < i {
		t.Errorf("in the order of the tokens:\n%s", got)
	}
	got = strings.Join(Linearization(head(lockspec.Leased), Model{Kind: ModelPermits, Permits: 2}, events), "\n")
	if i, j, k := strings.Index(got, "t2 (token 2) of p2 granted"), strings.Index(got, "t1 (token 1) of p1 granted"), strings.Index(got, "t2 released"); i < 0 || j < i || k < j {
		t.Errorf("in the order of the holds:\n%s", got)
	}
	late := script(t, "0 p1 acquire\n1 p1 acquire ok t1 lease=100\n10 p2 acquire\n11 p2 acquire ok t2 lease=100")
	got = strings.Join(Linearization(head(lockspec.Leased), Model{Kind: ModelLease}, late), "\n")
	if !strings.Contains(got, "t2 cannot follow") {
		t.Errorf("an illegal one:\n%s", got)
	}
}

func TestContradiction(t *testing.T) {
	h := head(lockspec.Leased)
	events := script(t, "0 p1 acquire\n1 p1 acquire ok t1 lease=100\n10 p2 acquire\n11 p2 acquire ok t2 lease=100\n50 p1 release t1\n60 p3 acquire\n160 p3 acquire ok t3 lease=5")
	f := streamed(t, h, "lease", events, 1).Findings[0]
	got := Contradiction(f, h, events)
	if len(got) != 3 || !strings.Contains(got[0], "release called 0.050s (event 4)") || slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, "t3") }) {
		t.Errorf("got %q", got)
	}
}
