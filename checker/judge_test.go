package checker

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// judgeHeader is what Judge has to know to read a made history by its model.
func judgeHeader(m Model) *history.Header {
	h := &history.Header{Class: lockspec.Leased, Claims: map[lockspec.Feature]history.Claim{}}
	switch m.Kind {
	case ModelPermits:
		h.Capacity = m.Permits
	case ModelReadWrite:
		h.Claims[lockspec.Shared] = history.Proven
	case ModelReentrant:
		h.Claims[lockspec.Reentrant] = history.Proven
	case ModelFenced:
		h.Claims[lockspec.Fencing] = history.Proven
	}
	return h
}

// accused is whether the service level was found to be broken for certain by
// what was granted to whom.
func accused(v *Verdict) (Finding, bool) {
	n := slices.IndexFunc(v.Findings, func(f Finding) bool {
		return f.Level == Service && (f.Kind == Overlap || f.Kind == Fencing || f.Kind == Renewal)
	})
	if n < 0 {
		return Finding{}, false
	}
	return v.Findings[n], true
}

// TestJudgeAgrees: Judge accuses no history that has a linearization, and finds
// those that have none, but for chains that its papers, which end and begin
// again, do not show.
func TestJudgeAgrees(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	models := slices.DeleteFunc(allModels(), func(m Model) bool { return m.Kind == ModelMutex })
	illegal, found := 0, 0
	for i := range histories(t, 20_000) {
		m := makeHistory(rng, models[i%len(models)], someWrong(rng))
		for n := range m.events {
			if m.model.Kind != ModelFenced {
				m.events[n].Token = 0 // only there do they mean anything
			}
		}
		legal := m.bruteLegal()
		f, broken := accused(Judge(judgeHeader(m.model), m.events))
		if legal && broken {
			t.Fatalf("legal, and accused: %v\n%s", f, m)
		}
		if !legal {
			illegal++
			if broken {
				found++
			}
		}
	}
	t.Logf("%d of %d illegal histories found for certain", found, illegal)
	if found*10 < illegal*9 {
		t.Errorf("only %d of %d illegal histories were found", found, illegal)
	}
}
