package porcupine

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
)

// ErrRenewals is what Check answers to a history whose renewals its model does
// not know.
var ErrRenewals = errors.New("porcupine: renewals are not modelled")

// Check searches for a linearization of the history. It gives up, with
// checker.Inconclusive, after the timeout (0: never).
func Check(events []history.Event, m checker.Model, timeout time.Duration) (checker.Outcome, error) {
	model, err := Model(m)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(events, func(e history.Event) bool { return e.Op == history.Renew }) {
		return "", ErrRenewals
	}
	return CheckWith(Operations(events), model, timeout), nil
}

// CheckWith searches with a model that the user brings. Its Init, Step and
// Partition are given Input and Output.
func CheckWith(ops []porcupine.Operation, model porcupine.Model, timeout time.Duration) checker.Outcome {
	switch porcupine.CheckOperationsTimeout(model, ops, timeout) {
	case porcupine.Ok:
		return checker.Pass
	case porcupine.Illegal:
		return checker.Failed
	}
	return checker.Inconclusive
}

// MostDrawn bounds the operations of a window.
const MostDrawn = 500

// Window draws the operations on a key around a witness as a page of HTML: at
// most MostDrawn of them, and at most a second of search for the longest legal
// part. The witness is indices of events, as a Finding has them.
func Window(w io.Writer, events []history.Event, m checker.Model, key string, witness []int64) error {
	model, err := Model(m)
	if err != nil {
		return err
	}
	ops := around(Operations(events), key, witness)
	if len(ops) == 0 {
		return fmt.Errorf("porcupine: nothing was done with %q", key)
	}
	_, info := porcupine.CheckOperationsVerbose(model, ops, time.Second)
	return porcupine.Visualize(model, info, w)
}

// around is the operations on the key that are nearest to the witness.
func around(ops []porcupine.Operation, key string, witness []int64) []porcupine.Operation {
	ops = slices.DeleteFunc(slices.Clone(ops), func(op porcupine.Operation) bool {
		in := op.Input.(Input)
		return in.Key != key || in.Op == history.Renew
	})
	if len(ops) <= MostDrawn {
		return ops
	}
	last := int64(-1)
	for _, i := range witness {
		last = max(last, i)
	}
	at, _ := slices.BinarySearchFunc(ops, last, func(op porcupine.Operation, i int64) int { return int(min(1, max(-1, op.Call-i))) })
	if last < 0 {
		at = MostDrawn
	}
	from := min(max(0, at-MostDrawn*3/4), len(ops)-MostDrawn)
	return ops[from : from+MostDrawn]
}
