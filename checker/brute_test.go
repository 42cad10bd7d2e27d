package checker

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

func (m made) checkerLegal() *Summary {
	h := &history.Header{Class: lockspec.Leased}
	s := NewStream(h, m.model, &StreamOptions{Workers: 1})
	for i := range m.events {
		s.Add(&m.events[i])
	}
	return s.Close()
}

func allModels() []Model {
	return []Model{{ModelMutex, 1}, {ModelOwner, 1}, {ModelLease, 1}, {ModelFenced, 1}, {ModelPermits, 2}, {ModelPermits, 3}, {ModelReadWrite, 1}, {ModelReentrant, 1}}
}

// histories is how many are made; more by LOCKCHECK_HISTORIES.
func histories(t testing.TB, usual int) int {
	if n, err := strconv.Atoi(os.Getenv("LOCKCHECK_HISTORIES")); err == nil {
		return n
	}
	if testing.Short() {
		return usual / 10
	}
	return usual
}

// TestBruteForce compares the checks without search with all ways to put the
// points, on histories with unknown outcomes, slow replies and violations.
func TestBruteForce(t *testing.T) {
	n := histories(t, 60_000)
	var mu sync.Mutex
	count := map[string]int{}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			local := map[string]int{}
			for i := range n / 2 {
				if t.Failed() {
					break
				}
				models := allModels()
				m := makeHistory(rng, models[i%len(models)], someWrong(rng))
				local[agree(t, m)]++
			}
			mu.Lock()
			defer mu.Unlock()
			for k, v := range local {
				count[k] += v
			}
		})
	}
	wg.Wait()
	t.Log(count)
}

func agree(t *testing.T, m made) string {
	legal := m.bruteLegal()
	sum := m.checkerLegal()
	switch {
	case m.model.Kind == ModelLease && sum.Doubts > 0 && !slices.ContainsFunc(sum.Findings, func(f Finding) bool { return f.Kind != Ownership && f.Certainty == Certain }):
		return string(m.model.Kind) + " inconclusive"
	case legal != sum.linearizable():
		t.Errorf("all linearizations: legal is %v; the checker says %s %v\n%s", legal, sum.Outcome, sum.Findings, m)
	}
	return fmt.Sprintf("%s %v", m.model.Kind, legal)
}

// TestNeverGuesses: permits, readers and writers, and reentrant owners under
// leases: legal is never accused, illegal never passes; what cannot be proven is
// in doubt, and that is rare.
func TestNeverGuesses(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	models := []Model{{ModelPermits, 2}, {ModelPermits, 3}, {ModelReadWrite, 1}, {ModelReentrant, 1}}
	count := map[string]int{}
	for i := range histories(t, 20_000) {
		m := makeLeased(rng, models[i%len(models)], someWrong(rng), true)
		legal, sum := m.bruteLegal(), m.checkerLegal()
		sure := slices.ContainsFunc(sum.Findings, func(f Finding) bool { return f.Kind != Ownership && f.Certainty == Certain })
		if legal && sure || !legal && sum.linearizable() {
			t.Fatalf("all linearizations: legal is %v; the checker says %s %v\n%s", legal, sum.Outcome, sum.Findings, m)
		}
		for n := range m.events {
			m.events[n].Token = 0
		}
		judged := Judge(judgeHeader(m.model), m.events)
		if f, broken := accused(judged); legal && broken {
			t.Fatalf("legal, and accused by Judge: %v\n%s", f, m)
		}
		if !legal && judged.Outcome == Pass {
			t.Fatalf("illegal, and passed by Judge\n%s", m)
		}
		if !sure && sum.Doubts > 0 {
			count[fmt.Sprintf("%s %v, in doubt", m.model.Kind, legal)]++
		} else {
			count[fmt.Sprintf("%s %v", m.model.Kind, legal)]++
		}
	}
	t.Log(count)
}

// linearizable leaves out what was answered to former holders: an ok to a
// release of what was no longer held changes nothing.
func (s *Summary) linearizable() bool {
	return !slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Kind != Ownership })
}
