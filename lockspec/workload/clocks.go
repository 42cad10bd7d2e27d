package workload

import (
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// clockWatch notices what makes durations of a run mean nothing: a machine
// that was suspended, and a wall clock that was set while the service may count
// its leases by it.
type clockWatch struct {
	boot, real int64
	known      bool
	step       time.Duration // the worst
	why        string
}

// A step below this is the noise of reading two clocks one after the other.
const leastStep = time.Millisecond

// look compares the offsets of the clocks with those of the last look.
func (w *clockWatch) look(rec *history.Recorder) {
	boot, real, ok := fakeclock.Offsets()
	if !ok {
		return
	}
	if w.known {
		w.note(rec, "suspend", "the machine was suspended", boot-w.boot)
		w.note(rec, "clock-step", "the wall clock was set", real-w.real)
	}
	w.boot, w.real, w.known = boot, real, true
}

func (w *clockWatch) note(rec *history.Recorder, name, what string, by int64) {
	step := time.Duration(by).Abs()
	if step < leastStep {
		return
	}
	if step > w.step {
		w.step, w.why = step, fmt.Sprintf("%s by %s while the run measured leases", what, time.Duration(by))
	}
	hazard := lockspec.Hazard("")
	if name == "suspend" {
		hazard = lockspec.Suspend
	}
	now := rec.Now()
	rec.Record(&history.Event{Type: history.Happen, Op: history.Fault, ID: name, Fault: name, Hazard: hazard, Targets: []string{"clock:controller"},
		Phase: history.Observed, Origin: history.Found, From: now, To: now, Message: what})
}
