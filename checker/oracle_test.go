package checker_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/porcupine"
)

// TestPorcupineAgrees compares the checks without search with porcupine, where
// it has the model.
func TestPorcupineAgrees(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	models := checker.AllModels()
	compared, illegal := 0, 0
	for i := range checker.Histories(t, 20_000) {
		m := models[i%len(models)]
		events := checker.MakeHistory(rng, m, checker.SomeWrong(rng))
		want, err := porcupine.Check(events, m, 10*time.Second)
		if errors.Is(err, porcupine.ErrRenewals) {
			continue
		}
		if err != nil || want == checker.Inconclusive {
			t.Fatal(want, err)
		}
		legal, sure := checker.Linearizable(m, events)
		if !sure {
			continue
		}
		compared++
		if want == checker.Failed {
			illegal++
		}
		if legal != (want == checker.Pass) {
			t.Fatalf("porcupine says %s, the checker legal=%v\n%s", want, legal, checker.Show(m, events))
		}
	}
	t.Logf("%d compared, %d of them illegal", compared, illegal)
	if compared == 0 || illegal == 0 {
		t.Error("nothing was compared")
	}
}
