package porcupine_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	engine "github.com/anishathalye/porcupine"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/checker/porcupine"
	"github.com/lockcheck/lockcheck/lockspec"
)

// turns is n turns of clients that hold one after the other, or, where broken,
// the last of them at once with the one before it.
func turns(n int, broken bool) []history.Event {
	var events []history.Event
	add := func(p int, typ history.Type, op history.Op, tenure string) {
		i := int64(len(events))
		events = append(events, history.Event{Index: i, Time: i * 1000, Type: typ, Op: op, Key: "k", Tenure: tenure,
			Process: fmt.Sprintf("p%d", p), Owner: fmt.Sprintf("o%d", p)})
	}
	for k := range n {
		id := fmt.Sprintf("t%d", k)
		add(k%3, history.Invoke, history.Acquire, "")
		add(k%3, history.OK, history.Acquire, id)
		if broken && k == n-2 {
			continue
		}
		add(k%3, history.Invoke, history.Release, id)
		add(k%3, history.OK, history.Release, id)
	}
	return events
}

func TestCheck(t *testing.T) {
	for _, kind := range []checker.ModelKind{checker.ModelMutex, checker.ModelOwner, checker.ModelReadWrite, checker.ModelReentrant, checker.ModelPermits} {
		m := checker.Model{Kind: kind, Permits: 1}
		if got, err := porcupine.Check(turns(10, false), m, 0); err != nil || got != checker.Pass {
			t.Errorf("%s: %s, %v", m, got, err)
		}
		if got, err := porcupine.Check(turns(10, true), m, 0); err != nil || got != checker.Failed {
			t.Errorf("%s, broken: %s, %v", m, got, err)
		}
	}
}

func TestRefuses(t *testing.T) {
	if _, err := porcupine.Check(nil, checker.Model{Kind: checker.ModelAuto}, 0); err == nil {
		t.Error("auto is no model")
	}
	renewed := []history.Event{{Type: history.Invoke, Op: history.Renew, Process: "p1", Tenure: "t1"}}
	if _, err := porcupine.Check(renewed, checker.Model{Kind: checker.ModelLease}, 0); !errors.Is(err, porcupine.ErrRenewals) {
		t.Errorf("renewals: %v", err)
	}
}

// TestOwnModel: a user's model that allows at most three turns.
func TestOwnModel(t *testing.T) {
	three := engine.Model{
		Init: func() any { return 0 },
		Step: func(s, in, _ any) (bool, any) {
			if in.(porcupine.Input).Op != history.Acquire {
				return true, s
			}
			return s.(int) < 3, s.(int) + 1
		},
	}
	if got := porcupine.CheckWith(porcupine.Operations(turns(3, false)), three, time.Second); got != checker.Pass {
		t.Errorf("three turns: %s", got)
	}
	if got := porcupine.CheckWith(porcupine.Operations(turns(4, false)), three, time.Second); got != checker.Failed {
		t.Errorf("four turns: %s", got)
	}
}

func TestWindow(t *testing.T) {
	var page bytes.Buffer
	if err := porcupine.Window(&page, turns(2000, true), checker.Model{Kind: checker.ModelMutex}, "k", []int64{7990}); err != nil {
		t.Fatal(err)
	}
	drawn := strings.Count(page.String(), `"Description"`)
	if drawn == 0 || drawn > 2*porcupine.MostDrawn || !strings.Contains(page.String(), "t1998") || strings.Contains(page.String(), "t1500 ") {
		t.Errorf("%d bytes, %d descriptions", page.Len(), drawn)
	}
	if err := porcupine.Window(&page, nil, checker.Model{Kind: checker.ModelMutex}, "k", nil); err == nil {
		t.Error("a window of nothing")
	}
}

func TestOperations(t *testing.T) {
	events := []history.Event{
		{Index: 0, Type: history.Invoke, Op: history.Acquire, Process: "p1"},
		{Index: 1, Type: history.Invoke, Op: history.Acquire, Process: "p2"},
		{Index: 2, Type: history.Fail, Op: history.Acquire, Process: "p1", Error: lockspec.Busy},
		{Index: 3, Type: history.Info, Op: history.Acquire, Process: "p2", Error: lockspec.Unavailable},
		{Index: 4, Type: history.Invoke, Op: history.Held, Process: "p1", Tenure: "t0"},
		{Index: 5, Type: history.Invoke, Op: history.Release, Process: "p1", Tenure: "t0"},
		{Index: 6, Type: history.Fail, Op: history.Release, Process: "p1", Tenure: "t0", Error: lockspec.NotHeld},
	}
	ops := porcupine.Operations(events)
	if len(ops) != 2 || !ops[0].Output.(porcupine.Output).Unknown || ops[1].Return != 6 {
		t.Errorf("%+v", ops)
	}
}
