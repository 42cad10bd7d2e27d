package chaos

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
)

// World performs faults. The real one strikes operating-system processes; a
// virtual one, simulated nodes.
type World interface {
	// Can is nil where the world can do the fault, else why not.
	Can(f Fault) error
	// Strike applies the fault to the node and confirms that it landed. The
	// heal that it returns undoes it and confirms that; it may be called once.
	Strike(ctx context.Context, f Fault, node string) (heal func(context.Context) error, err error)
}

// Recorder is where the phases of a fault are recorded.
type Recorder interface {
	Record(*history.Event) int64
}

// perform applies one step and records its phases: start is stamped before the
// fault is applied, landed once it is confirmed, end once its healing is.
// A fault that did not land is no cause for anything; perform then returns the
// error, and so it does where healing failed.
func perform(ctx context.Context, w World, rec Recorder, id string, s Step) error {
	f := fault(s.Fault)
	e := history.Event{Type: history.Happen, Op: history.Fault, ID: id, Fault: f.Name, Hazard: f.Hazard,
		Targets: []string{s.Node}, Origin: history.Injected}
	phase := func(p history.Phase) {
		next := e
		next.Phase = p
		rec.Record(&next)
	}
	phase(history.Start)
	heal, err := w.Strike(ctx, f, s.Node)
	if err != nil {
		return err
	}
	phase(history.Landed)
	wait(ctx, s.For)
	phase(history.Healing)
	// Healing is not given up when the run is: nothing stays struck.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), healLimit)
	defer cancel()
	if err := heal(bounded); err != nil {
		return err
	}
	phase(history.End)
	return nil
}

const healLimit = 10 * time.Second

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
