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
	env   *contract.Env
	world World
	key   string
	steps []Step
	stop  context.CancelFunc // ends the contenders
}

// after is what a scenario does once its fault is over, while contenders still
// run: how many more turns everybody gets before it ends.
const after = 2

// planner draws the steps of a scenario.
type planner func(rng *rand.Rand, lease time.Duration) []Step

// Plan is the schedule that a scenario will perform under the seed of its
// environment: same seed, same schedule.
func Plan(id string, rng *rand.Rand, lease time.Duration) (Schedule, bool) {
	for _, row := range scenarios {
		if row.id == id {
			return Schedule{Case: id, Nodes: Nodes, Steps: row.plan(rng, lease)}, true
		}
	}
	return Schedule{}, false
}

func (row *scenarioRow) run(ctx context.Context, e *contract.Env) {
	s := &scenario{env: e, world: worldOf(e), key: e.Key("k"), steps: row.plan(e.Rand, e.Term())}
	for _, step := range s.steps {
		if err := s.world.Can(fault(step.Fault)); err != nil {
			e.MustUnsupported("%v", err)
		}
	}
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	s.play(ctx)
}

// worldOf is the harness's own world, or the one of its processes.
func worldOf(e *contract.Env) World {
	if w, ok := e.Power().(World); ok {
		return w
	}
	host, ok := e.Power().(contract.NodeHost)
	if !ok {
		e.MustUnsupported("harness cannot run nodes as processes")
	}
	return NewReal(host)
}

// play runs the contenders until every step was performed and each contender
// that is still alive has had its turns.
func (s *scenario) play(ctx context.Context) {
	var all sync.WaitGroup
	for n := range Nodes {
		name := fmt.Sprintf("n%d", n+1)
		p := s.env.MustProcess(ctx, name)
		rng := s.env.RandFor(n)
		all.Go(func() { s.contend(ctx, name, p, rng) })
	}
	all.Wait()
}

// load is a contender's turn: short work, so that turns come round.
func (s *scenario) load() workload.Load {
	return workload.Load{Key: s.key, Lease: s.env.LeaseOf(s.env.Lease), Unit: s.env.Lease, Work: s.env.Lease / 25, Polls: true, Poll: s.env.Lease / 25}
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
// follows is what an application would do: it passed its check before.
func (s *scenario) struck(ctx context.Context, p *workload.Process, id string, step Step) {
	for n := range tries {
		t, err := workload.AcquireSoon(ctx, p, lockspec.Request{Key: s.key, Lease: s.env.LeaseOf(s.env.Lease)}, s.env.Lease/25)
		if err != nil {
			if ctx.Err() == nil {
				s.env.Inconclusive("%s never got the key: %v", step.Node, err)
			}
			return
		}
		if step.For > s.env.Term() && step.For < t.Lease {
			s.env.Inconclusive("the lock granted %s where %s was asked for, and a %s of %s does not outlast that; give a --lease that it grants",
				t.Lease, s.env.Term(), step.Fault, step.For.Round(time.Millisecond))
		}
		err = s.strikeInWork(ctx, t, fmt.Sprintf("%s-%d", id, n+1), step)
		_ = s.env.Release(ctx, t)
		t.Stop()
		if !errors.Is(err, lockspec.ErrLost) && !errors.Is(err, lockspec.ErrNotHeld) {
			return
		}
	}
	s.env.Inconclusive("the lock was lost before the work began, %d times", tries)
}

func (s *scenario) strikeInWork(ctx context.Context, t *workload.Tenure, id string, step Step) error {
	var strike sync.WaitGroup
	defer strike.Wait()
	return t.WriteWith(ctx, s.env.Term()/2, func() {
		strike.Go(func() {
			wait(ctx, step.Into)
			if err := perform(ctx, s.world, s.env.Scene, id, step); err != nil {
				s.failedFault(step, err)
			}
		})
	})
}

// failedFault: what this machine cannot do is unsupported, a fault that did
// not land or did not heal is an error of ours.
func (s *scenario) failedFault(step Step, err error) {
	s.stop()
	if errors.Is(err, lockspec.ErrUnsupported) {
		s.env.Note(result.Unsupported, err.Error())
		return
	}
	s.env.Note(result.Error, fmt.Sprintf("%s of %s: %v", step.Fault, step.Node, err))
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
