package contract

import (
	"context"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func sectionCases() []Case {
	return []Case{
		{ID: "L01", Group: "section", Name: "the callback form lets one in at a time, and frees the key when it returns", Level: ClientLevel, Since: "1",
			Why: "where a library offers a callback, that is what applications use; it must exclude as an acquisition does",
			Run: sectionsExclude},
	}
}

// sectionsExclude looks into one section, then lets many race.
func sectionsExclude(ctx context.Context, e *Env) {
	s, other := e.mustVisitor(ctx, "n1"), e.MustProcess(ctx, "n2")
	r := e.ask("k", e.Renewal())
	t, err := s.visit(ctx, r, e.Lease/2, func() {
		if intruder, err := other.Acquire(ctx, r); err == nil {
			e.keep(intruder)
		} else {
			e.Expect("an acquisition while another is in its section", err, lockspec.Busy)
		}
	})
	if lockspec.OutcomeOf(err) == lockspec.Unsupported {
		e.MustUnsupported("the client offers no callback form")
	}
	if e.Expect("a section", err, lockspec.OK) && t != nil {
		_ = e.Release(ctx, e.MustAcquire(ctx, other, r))
	}
	e.raceSections(ctx, r)
}

// raceSections lets two processes of each of three nodes enter one key, each
// until it was inside three times.
func (e *Env) raceSections(ctx context.Context, r lockspec.Request) {
	ctx, cancel := context.WithTimeout(ctx, 20*e.Lease)
	defer cancel()
	var all sync.WaitGroup
	for n := range 6 {
		v, rng := e.mustVisitor(ctx, []string{"n1", "n2", "n3"}[n%3]), e.RandFor(n)
		all.Go(func() {
			for inside := 0; inside < 3; {
				if t, err := v.visit(ctx, r, e.Lease/20, nil); t != nil && err == nil {
					inside++
				}
				if workload.Sleep(ctx, time.Duration(rng.Int64N(int64(e.Lease/10)))) != nil {
					return
				}
			}
		})
	}
	all.Wait()
}

// visitor runs sections, and is asked from the outside whether its node still
// answers. What a node answers before it says that a section was left proves
// that the section was not left before that was asked: without it nobody knows
// how long the word was on its way, and no two sections would ever overlap.
type visitor struct {
	e       *Env
	process *workload.Process
	witness *workload.Process
	scratch string
}

func (e *Env) mustVisitor(ctx context.Context, node string) *visitor {
	v := &visitor{e: e, process: e.MustProcess(ctx, node), witness: e.MustProcess(ctx, node)}
	v.scratch = "witness-" + v.witness.Owner
	return v
}

// visit runs one section. During its work it calls meanwhile, and lets the
// node bear witness afterwards.
func (v *visitor) visit(ctx context.Context, r lockspec.Request, work time.Duration, meanwhile func()) (*workload.Tenure, error) {
	var inside sync.WaitGroup
	defer inside.Wait()
	t, err := v.process.SectionWith(ctx, r, work, func(*workload.Tenure) {
		inside.Go(func() {
			if meanwhile != nil {
				meanwhile()
			}
			v.bearWitness(ctx)
		})
	})
	if t != nil && err == nil && t.Token == 0 && v.e.Description.Claims(lockspec.Fencing) {
		v.e.accuse(about(t, checker.Contract, "section-without-token", "fencing is claimed, and the section of %s has no token", t.ID))
	}
	return t, err
}

func (v *visitor) bearWitness(ctx context.Context) {
	if t, err := v.witness.Acquire(ctx, v.e.ask(v.scratch, v.e.Renewal())); err == nil {
		_ = v.e.Release(ctx, v.e.keep(t))
	}
}
