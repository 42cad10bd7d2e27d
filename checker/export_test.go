package checker

import (
	"math/rand/v2"
	"testing"

	"github.com/lockcheck/lockcheck/checker/history"
)

// MakeHistory is a random small history of the model, for tests outside.
func MakeHistory(rng *rand.Rand, m Model, wrong float64) []history.Event {
	return makeHistory(rng, m, wrong).events
}

// SomeWrong is how wrong the lock of a history is to be.
func SomeWrong(rng *rand.Rand) float64 { return someWrong(rng) }

// Linearizable is what the checks without search say of it; sure is false
// where they do not know.
func Linearizable(m Model, events []history.Event) (legal, sure bool) {
	sum := made{m, m.chained(), events}.checkerLegal()
	return sum.linearizable(), sum.Doubts == 0
}

// AllModels are the models, and Histories how many histories to try.
func AllModels() []Model                          { return allModels() }
func Histories(t testing.TB, usual int) int       { return histories(t, usual) }
func Show(m Model, events []history.Event) string { return made{m, m.chained(), events}.String() }
