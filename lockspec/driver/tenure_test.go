package driver

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// A question looks at what was raised before it, whether the watcher has come to
// it or not.
func TestDoubtIsSeenAtOnce(t *testing.T) {
	for range 100 {
		l := &toyLease{doubts: make(chan bool, 1)}
		tenure := newTenure("L1", nil, l)
		l.doubts <- true
		go tenure.watch(t.Context(), func(Event) {})
		if !tenure.doubted() {
			t.Fatal("a doubt that was raised was not seen")
		}
	}
}

func TestLossHidesWhatItWraps(t *testing.T) {
	lost := make(chan struct{})
	close(lost)
	l := &toyLease{lost: lost, cause: errors.Join(context.Canceled, lockspec.ErrUnavailable)}
	if got := lockspec.OutcomeOf(newTenure("L1", nil, l).cause()); got != lockspec.Lost {
		t.Errorf("a loss because a context ended is %s", got)
	}
}

func TestQuiet(t *testing.T) {
	var q quiet
	wants := func(from, to, wantFrom, wantTo lockspec.Stamp) {
		t.Helper()
		if gotFrom, gotTo := q.excuse(from, to); gotFrom != wantFrom || gotTo != wantTo {
			t.Errorf("of %d to %d is left %d to %d, want %d to %d", from, to, gotFrom, gotTo, wantFrom, wantTo)
		}
	}
	wants(10, 90, 10, 90)
	q.begin(50)
	q.begin(60) // a kill of a paused node
	wants(10, 90, 10, 50)
	q.end(100, 20*time.Nanosecond)
	wants(10, 200, 120, 200)
	wants(10, 110, 120, 110)
	wants(130, 150, 130, 150)
}
