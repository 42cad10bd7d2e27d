package checker

import (
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"pgregory.net/rapid"
)

// TestRivals: what many are asked at once is what each is asked of each.
func TestRivals(t *testing.T) {
	explained, not := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := &record{header: &history.Header{Claims: map[lockspec.Feature]history.Claim{}, Eps: 1}}
		if rapid.Bool().Draw(t, "strict") {
			r.header.Claims[lockspec.StrictTry] = history.Proven
		}
		stamp := func(name string) Moment {
			n := rapid.Int64Range(0, 30).Draw(t, name)
			return Moment{Time: n / 3, Index: n} // often at one time
		}
		if rapid.Bool().Draw(t, "struck") {
			from := stamp("from")
			r.faults = []*Fault{{Name: "partition", Targets: []string{"link:n1"}, Start: from, End: later(from, stamp("to")), Landed: true}}
		}
		var all []*attempt
		for range rapid.IntRange(1, 8).Draw(t, "attempts") {
			a := &attempt{invoke: stamp("invoke"), node: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node"), outcome: lockspec.Busy,
				unknown: rapid.IntRange(0, 9).Draw(t, "unknown") == 0, ask: time.Duration(rapid.IntRange(0, 3).Draw(t, "ask")),
				mode: rapid.SampledFrom([]lockspec.Mode{"", lockspec.Read}).Draw(t, "mode")}
			if a.reply = later(a.invoke, stamp("reply")); rapid.Bool().Draw(t, "unstamped") {
				a.reply.Index = unstamped
			}
			all = append(all, a)
		}
		v := r.rivalsOf(all)
		for i, a := range all {
			got, want := v.explain(a), r.attemptExplains(a, all)
			if got != want {
				t.Fatalf("attempt %d: %v, one by one %v", i, got, want)
			}
			if want {
				explained++
			} else {
				not++
			}
		}
	})
	if explained == 0 || not == 0 {
		t.Errorf("%d were explained, %d not", explained, not)
	}
}
