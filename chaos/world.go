package chaos

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
)

// World performs faults. The real one strikes processes, connections and
// servers; a virtual one, what it simulates of them.
type World interface {
	// Can is nil where the world can do the fault, else why not.
	Can(f *Fault) error
	// Prepare does what must be done before the grant that a step is to strike.
	Prepare(ctx context.Context, s Step, key string) (*Prepared, error)
}

// Prepared is a step that can be performed at once.
type Prepared struct {
	// Strike applies the step, and returns once it has landed. The heal that it
	// returns undoes it and confirms that; it is called once, and where there is
	// an error too: something may have been done.
	Strike func(ctx context.Context) (heal func(context.Context) error, err error)
	// Drop gives up what was prepared, where it was not used; nil: nothing was.
	Drop func()
}

func (p *Prepared) drop() {
	if p.Drop != nil {
		p.Drop()
	}
}

// Recorder is where the phases of a fault are recorded.
type Recorder interface {
	Record(*history.Event) int64
}

// perform applies one step and records its phases: start is stamped before the
// fault is applied, landed once it is confirmed, end once its healing is.
// A fault that did not land is no cause for anything; perform then returns the
// error, and so it does where healing failed.
func perform(ctx context.Context, p *Prepared, rec Recorder, id string, s Step, key string) error {
	f := fault(s.Fault)
	e := history.Event{Type: history.Happen, Op: history.Fault, ID: id, Fault: f.recordedAs(), Hazard: f.Hazard,
		Targets: []string{f.Strikes.target(s, key)}, Origin: history.Injected}
	if f.recordedAs() != f.Name {
		e.Message = f.Name
	}
	phase := func(p history.Phase) {
		next := e
		next.Phase = p
		rec.Record(&next)
	}
	phase(history.Start)
	heal, err := p.Strike(ctx)
	if err == nil {
		phase(history.Landed)
		wait(ctx, s.For)
		phase(history.Healing)
	}
	if heal != nil {
		// Healing is not given up when the run is: nothing stays struck.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), healLimit)
		defer cancel()
		if herr := heal(bounded); err == nil {
			err = herr
		}
	}
	if err == nil {
		phase(history.End)
	}
	return err
}

const healLimit = 20 * time.Second

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
