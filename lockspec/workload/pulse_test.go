package workload_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// watched asks what a watch with pings every 10 ms and a limit of 50 ms records
// of a service, within a second and one more look.
func watched(t *testing.T, ask func(context.Context) error) (stalls []history.Event) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rec, err := history.NewRecorder(history.Header{Version: history.FormatVersion}, &history.Options{Follow: func(batch []history.Event) {
			stalls = append(stalls, batch...)
		}})
		if err != nil {
			t.Fatal(err)
		}
		p := workload.NewPulse(rec, 10*time.Millisecond, 50*time.Millisecond, ask)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		p.Check(ctx)
		p.Stop()
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return stalls
}

// answersIn is a service that takes its time for the n-th question.
func answersIn(nth int, d time.Duration) func(context.Context) error {
	n := 0
	return func(ctx context.Context) error {
		if n++; n == nth {
			return workload.Sleep(ctx, d)
		}
		return nil
	}
}

func TestPulse(t *testing.T) {
	for _, test := range []struct {
		name  string
		ask   func(context.Context) error
		least time.Duration // together
		most  time.Duration
	}{
		{"answers at once", answersIn(0, 0), 0, 0},
		{"answers soon", answersIn(20, 40*time.Millisecond), 0, 0},
		{"stands still", answersIn(20, 300*time.Millisecond), 300 * time.Millisecond, 310 * time.Millisecond},
		{"still stands still", answersIn(50, time.Hour), 600 * time.Millisecond, 710 * time.Millisecond},
		{"is not there", func(context.Context) error { return errors.New("refused") }, 950 * time.Millisecond, 1200 * time.Millisecond},
		{"was stopped by the harness", func(context.Context) error {
			return fmt.Errorf("%w: it is stopped", lockspec.ErrUnsupported)
		}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			sum, last := time.Duration(0), int64(0)
			for _, e := range watched(t, test.ask) {
				if e.Fault != "stall" || e.Phase != history.Observed || e.Case != "" || len(e.Targets) != 1 || e.Targets[0] != checker.ServiceTarget {
					t.Errorf("recorded: %+v", e)
				}
				if e.From < last {
					t.Errorf("a stall from %d overlaps the one to %d", e.From, last)
				}
				last = e.To
				sum += time.Duration(e.To - e.From)
			}
			if sum < test.least || sum > test.most {
				t.Errorf("stalls of %s together, want %s to %s", sum, test.least, test.most)
			}
		})
	}
}
