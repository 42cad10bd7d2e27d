package workload

import (
	"bytes"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// TestClockStep: a wall clock that was set an hour ahead since the last look
// is noticed, recorded and told; one that was left alone is not.
func TestClockStep(t *testing.T) {
	var out bytes.Buffer
	rec, err := history.NewRecorder(history.Header{Version: 1, Class: lockspec.Leased}, &history.Options{Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	var w clockWatch
	w.look(rec)
	w.look(rec)
	if w.step != 0 {
		t.Fatalf("a step of %s that nobody made", w.step)
	}
	w.real -= int64(time.Hour)
	w.look(rec)
	if w.step < time.Hour-time.Second || w.why == "" {
		t.Errorf("step %s, %q", w.step, w.why)
	}
	w.boot -= int64(2 * time.Hour)
	w.look(rec)
	if w.step < 2*time.Hour-time.Second {
		t.Errorf("a suspend went unnoticed: %s", w.step)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadAll(&out)
	if err != nil || len(h.Events) != 2 || h.Events[0].Fault != "clock-step" || h.Events[1].Fault != "suspend" {
		t.Errorf("%v: %+v", err, h)
	}
}
