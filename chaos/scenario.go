package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/workload"
	"github.com/lockcheck/lockcheck/reports/result"
)

// scenario is contenders on every node taking one key in turns, while the
// schedule strikes one of them in its work.
type scenario struct {
	row   *scenarioRow
	env   *contract.Env
	world World
	key   string
	steps []Step
	stop  context.CancelFunc // ends the contenders
}

// after is what a scenario does once its fault is over, while contenders still
// run: how many more turns the struck node gets before it ends.
const after = 2

func (row *scenarioRow) run(ctx context.Context, e *contract.Env) {
	if err := row.applies(e.Description.Class); err != nil {
		e.MustUnsupported("%v", err)
	}
	s := &scenario{row: row, env: e, world: worldOf(e), key: e.Key("k"), steps: row.steps(e.Rand, e.Term())}
	for _, step := range s.steps {
		if err := s.world.Can(fault(step.Fault)); err != nil {
			e.MustUnsupported("%v", err)
		}
	}
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	if row.play != nil {
		row.play(s, ctx)
		return
	}
	s.contenders(ctx)
}

// worldOf is the harness's own world, or the real one.
func worldOf(e *contract.Env) World {
	if w, ok := e.Power().(World); ok {
		return w
	}
	return NewReal(e.Power())
}

// node is the n-th node of the scenario, from 0.
func (s *scenario) node(n int) string { return nodeOf(s.row.lane, n) }

// contenders run until every step was performed and the struck one has had its
// turns.
func (s *scenario) contenders(ctx context.Context) {
	var all sync.WaitGroup
	for n := range Nodes {
		name := s.node(n)
		p := s.env.MustProcess(ctx, name)
		rng := s.env.RandFor(n)
		all.Go(func() { s.contend(ctx, name, p, rng) })
	}
	all.Wait()
}

// load is a contender's turn: short work, so that turns come round.
func (s *scenario) load() workload.Load {
	poll := s.env.Lease / 25
	if s.row.poll > 0 {
		poll = time.Duration(s.row.poll * float64(s.env.Lease))
	}
	return workload.Load{Key: s.key, Lease: s.env.LeaseOf(s.env.Lease), Unit: s.env.Lease, Work: s.env.Lease / 25, Polls: true, Poll: poll}
}

// request asks for the key as the contenders do.
func (s *scenario) request() lockspec.Request {
	return lockspec.Request{Key: s.key, Lease: s.env.LeaseOf(s.env.Lease), Renew: s.env.Renewal()}
}

// contend takes its turns; where the schedule strikes this node, the struck
// grant is a long piece of work with the fault in the middle.
func (s *scenario) contend(ctx context.Context, name string, p *workload.Process, rng *rand.Rand) {
	for n, step := range s.steps {
		if step.Node != name {
			continue
		}
		l := s.load()
		if l.Count = step.Grant - 1; l.Count > 0 {
			workload.Contend(ctx, p, rng, l)
		}
		s.struck(ctx, p, fmt.Sprintf("%s-f%d", s.env.Case.ID, n+1), step)
		s.afterwards(ctx, name, rng)
		return
	}
	workload.Contend(ctx, p, rng, s.load())
}

// tries is how often a struck grant is tried again where the check before the
// work had already said that the lock was lost.
const tries = 3

// struck takes the key, works, and is struck in the work. The write that
// follows is what an application would do: it passed its check before. The
// fault may outlast the work, and strike the release.
func (s *scenario) struck(ctx context.Context, p *workload.Process, id string, step Step) {
	for n := range tries {
		ready, ok := s.prepare(ctx, step)
		if !ok {
			return
		}
		t, ok := s.takeSoon(ctx, p, step)
		if !ok {
			ready.drop()
			return
		}
		err := s.strikeInWork(ctx, t, fmt.Sprintf("%s-%d", id, n+1), step, ready)
		t.Stop()
		if !errors.Is(err, lockspec.ErrLost) && !errors.Is(err, lockspec.ErrNotHeld) {
			return
		}
	}
	s.env.Inconclusive("the lock was lost before the work began, %d times", tries)
}

// takeSoon takes the key, unless the lock's leases are too long for the step.
func (s *scenario) takeSoon(ctx context.Context, p *workload.Process, step Step) (*workload.Tenure, bool) {
	t, err := workload.AcquireSoon(ctx, p, s.request(), s.load().Poll)
	if err != nil {
		if ctx.Err() == nil {
			s.env.Inconclusive("%s never got the key: %v", step.Node, err)
		}
		return nil, false
	}
	if s.outlasts(t, step) {
		s.env.Inconclusive("the lock granted %s where %s was asked for, and a %s of %s does not outlast that; give a --lease that it grants",
			t.Lease, s.env.Term(), step.Fault, step.For.Round(time.Millisecond))
	}
	return t, true
}

// outlasts says whether a step that is to be longer than a lease is not longer
// than this one: then it shows nothing.
func (s *scenario) outlasts(t *workload.Tenure, step Step) bool {
	return step.For > s.env.Term() && step.For < t.Lease
}

func (s *scenario) strikeInWork(ctx context.Context, t *workload.Tenure, id string, step Step, ready *Prepared) error {
	var strike sync.WaitGroup
	defer strike.Wait()
	work := step.Work
	if work == 0 {
		work = s.env.Term() / 2
	}
	began := false
	err := t.WriteWith(ctx, work, func() {
		strike.Go(func() {
			wait(ctx, step.Into)
			s.perform(ctx, id, step, ready)
		})
		began = true
	})
	if !began {
		ready.drop()
	}
	_ = s.env.Release(ctx, t)
	return err
}

// strike prepares a step and performs it.
func (s *scenario) strike(ctx context.Context, id string, step Step) bool {
	ready, ok := s.prepare(ctx, step)
	return ok && s.perform(ctx, id, step, ready)
}

func (s *scenario) prepare(ctx context.Context, step Step) (*Prepared, bool) {
	ready, err := s.world.Prepare(ctx, step, s.key)
	return ready, s.could(ctx, step, err)
}

func (s *scenario) perform(ctx context.Context, id string, step Step, ready *Prepared) bool {
	return s.could(ctx, step, perform(ctx, ready, s.env.Scene, id, step, s.key))
}

// could says whether a step went well, and what became of it where it did not.
func (s *scenario) could(ctx context.Context, step Step, err error) bool {
	if err == nil {
		return true
	}
	what := fmt.Sprintf("%s of %s", step.Fault, step.Node)
	switch {
	case errors.Is(err, lockspec.ErrUnsupported):
		s.env.Note(result.Unsupported, err.Error())
	case ctx.Err() != nil:
		s.env.Note(result.NotRun, what+": the run was interrupted")
	case errors.Is(err, errNotLanded), errors.Is(err, lockspec.ErrNotHeld):
		s.env.Inconclusive("%s: %v", what, err)
	case errors.Is(err, errNotGivenBack):
		s.env.Inconclusive("%s: %v", what, err)
		return true
	default:
		s.env.Note(result.Error, fmt.Sprintf("%s: %v", what, err))
	}
	s.stop()
	return false
}

// afterwards goes on contending, from a new process if the old one died, and
// ends the scenario once the struck node has had its turns again: a second
// tenure after a failure is where many locks break.
func (s *scenario) afterwards(ctx context.Context, name string, rng *rand.Rand) {
	defer s.stop()
	p, err := s.env.Process(ctx, name)
	if err != nil {
		if ctx.Err() == nil {
			s.env.Note(result.Error, fmt.Sprintf("node %s did not come back: %v", name, err))
		}
		return
	}
	l := s.load()
	l.Count = after
	bounded, cancel := context.WithTimeout(ctx, 20*s.env.Term()+s.env.Description.Bounds.Takeover)
	defer cancel()
	if got := workload.Contend(bounded, p, rng, l); got < after && ctx.Err() == nil {
		s.env.Inconclusive("after the fault, %s got the key only %d times of %d", name, got, after)
	}
}
