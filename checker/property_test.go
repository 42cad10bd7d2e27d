package checker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// anyHistory draws a made-up history of any model.
func anyHistory(t *rapid.T) made {
	seed := rapid.Uint64().Draw(t, "seed")
	m := rapid.SampledFrom(allModels()).Draw(t, "model")
	return makeHistory(rand.New(rand.NewPCG(seed, 1)), m, rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "wrong"))
}

// legal is what the checks say; a doubt is no accusation.
func (m made) legal() bool {
	return !slices.ContainsFunc(m.checkerLegal().Findings, func(f Finding) bool { return f.Certainty == Certain && f.Kind != Ownership })
}

// reindexed puts the events in the order of their times again, keeping ties as
// they stand, and makes every time its own.
func (m made) reindexed() made {
	slices.SortStableFunc(m.events, func(a, b history.Event) int { return int(a.Time - b.Time) })
	for i := range m.events {
		m.events[i].Index = int64(i)
	}
	return m
}

func (m made) clone() made { return made{m.model, m.leased, slices.Clone(m.events)} }

// neverWorse checks that a change of a legal history leaves it legal.
func neverWorse(t *testing.T, change func(*rapid.T, made) made) {
	rapid.Check(t, func(t *rapid.T) {
		before := anyHistory(t)
		if !before.legal() {
			return
		}
		if after := change(t, before.clone()); !after.legal() {
			t.Fatalf("legal:\n%s\nand not any more:\n%s%v", before, after, after.checkerLegal().Findings)
		}
	})
}

// replyOf is the index of the return of the operation invoked at n, or −1.
func (m made) replyOf(n int) int {
	e := &m.events[n]
	for k := n + 1; k < len(m.events); k++ {
		if r := &m.events[k]; r.Process == e.Process && r.Op == e.Op && r.Returns() {
			return k
		}
	}
	return -1
}

func (m made) indices(want func(*history.Event) bool) []int {
	var out []int
	for i := range m.events {
		if want(&m.events[i]) {
			out = append(out, i)
		}
	}
	return out
}

// TestLongerRelease: a release whose reply comes later, before the process does
// anything else, constrains less.
func TestLongerRelease(t *testing.T) {
	neverWorse(t, func(t *rapid.T, m made) made {
		releases := m.indices(func(e *history.Event) bool { return e.Op == history.Release && e.Returns() })
		if len(releases) == 0 {
			return m
		}
		n := rapid.SampledFrom(releases).Draw(t, "release")
		e := m.events[n]
		last := len(m.events)
		for k := n + 1; k < len(m.events); k++ {
			if m.events[k].Process == e.Process {
				last = k
				break
			}
		}
		to := rapid.IntRange(n, last-1).Draw(t, "to")
		e.Time = m.events[to].Time
		m.events = slices.Insert(slices.Delete(m.events, n, n+1), to, e)
		for i := range m.events {
			m.events[i].Index = int64(i)
		}
		return m
	})
}

// TestWithoutUnknown: an acquisition of unknown outcome, dropped.
func TestWithoutUnknown(t *testing.T) {
	neverWorse(t, func(t *rapid.T, m made) made {
		unknown := m.indices(func(e *history.Event) bool { return e.Op == history.Acquire && e.Type == history.Info })
		if len(unknown) == 0 {
			return m
		}
		n := rapid.SampledFrom(unknown).Draw(t, "acquire")
		process := m.events[n].Process
		from := slices.IndexFunc(m.events, func(e history.Event) bool {
			return e.Process == process && e.Op == history.Acquire && e.Type == history.Invoke && m.replyOf(int(e.Time)) == n
		})
		m.events = slices.Delete(m.events, n, n+1)
		m.events = slices.Delete(m.events, from, from+1)
		return m.reindexed()
	})
}

// TestWiderStamps: every invocation earlier and every return later by the same
// error, as an import with a clock error does it, constrains less.
func TestWiderStamps(t *testing.T) {
	neverWorse(t, func(t *rapid.T, m made) made {
		by := rapid.Int64Range(1, 4).Draw(t, "error")
		last := map[string]int64{}
		for i := range m.events {
			e := &m.events[i]
			at := e.Time + by
			if e.Type == history.Invoke {
				at = e.Time - by
			}
			// Never before what the same process did before.
			e.Time = max(at, last[e.Process])
			last[e.Process] = e.Time
		}
		// Of equal times, releases and other invocations come first.
		slices.SortStableFunc(m.events, func(a, b history.Event) int {
			if a.Time != b.Time || a.Process == b.Process {
				return int(a.Time - b.Time)
			}
			return first(a) - first(b)
		})
		for i := range m.events {
			m.events[i].Index = int64(i)
		}
		return m
	})
}

func first(e history.Event) int {
	if e.Type == history.Invoke {
		return 0
	}
	return 1
}

// TestNamesAndOrigin: other names and another beginning of time change nothing.
func TestNamesAndOrigin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyHistory(t)
		by := rapid.Int64Range(0, 1e12).Draw(t, "shift")
		other := m.clone()
		for i := range other.events {
			e := &other.events[i]
			e.Time += by
			e.Index += by
			e.Process, e.Owner, e.Key = "x-"+e.Process, "y-"+e.Owner, "z-"+e.Key
			if e.Tenure != "" {
				e.Tenure = "w-" + e.Tenure
			}
		}
		if a, b := m.checkerLegal(), other.checkerLegal(); a.Violations != b.Violations || a.Doubts != b.Doubts {
			t.Fatalf("%s\n%v, renamed and shifted by %d: %v", m, a.Findings, by, b.Findings)
		}
	})
}

// TestWithoutTenure: a history without one of its tenures has no new violation.
func TestWithoutTenure(t *testing.T) {
	neverWorse(t, func(t *rapid.T, m made) made {
		granted := m.indices(func(e *history.Event) bool { return e.Op == history.Acquire && e.Type == history.OK })
		if len(granted) == 0 {
			return m
		}
		id := m.events[rapid.SampledFrom(granted).Draw(t, "tenure")].Tenure
		at := slices.IndexFunc(m.events, func(e history.Event) bool { return e.Tenure == id })
		from := -1
		for i := range m.events[:at] {
			if e := &m.events[i]; e.Process == m.events[at].Process && e.Op == history.Acquire && e.Type == history.Invoke {
				from = i
			}
		}
		m.events = slices.DeleteFunc(slices.Delete(m.events, from, from+1), func(e history.Event) bool { return e.Tenure == id })
		return m.reindexed()
	})
}

// TestParallelAgrees: keys checked side by side give what one shard gives.
func TestParallelAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []history.Event
		m := rapid.SampledFrom(allModels()).Draw(t, "model")
		for k := range rapid.IntRange(1, 5).Draw(t, "keys") {
			one := makeHistory(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), m, 1)
			for _, e := range one.events {
				e.Key, e.Process = fmt.Sprint("k", k), fmt.Sprint(k, e.Process)
				if e.Tenure != "" {
					e.Tenure = fmt.Sprint(k, e.Tenure)
				}
				all = append(all, e)
			}
		}
		whole := made{m, m.chained(), all}.reindexed()
		h := &history.Header{Class: lockspec.Leased}
		var sums []*Summary
		for _, workers := range []int{1, 4} {
			s := NewStream(h, m, &StreamOptions{Workers: workers})
			for i := range whole.events {
				s.Add(&whole.events[i])
			}
			sums = append(sums, s.Close())
		}
		if a, b := sums[0], sums[1]; a.Violations != b.Violations || a.Doubts != b.Doubts || a.Tenures != b.Tenures {
			t.Fatalf("one shard %+v, four %+v", a, b)
		}
	})
}
