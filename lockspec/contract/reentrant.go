package contract

import (
	"context"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func reentrantCases() []Case {
	return []Case{
		{ID: "J07", Group: "primitives", Name: "a holder that acquires again releases as often before the key is free", Level: ClientLevel, Since: "1",
			Why:   "an inner function that frees the outer one's lock leaves the rest of its work unprotected",
			Needs: []lockspec.Feature{lockspec.Reentrant}, Run: reentrance},
	}
}

// reentrance tries after each release but the last whether the key is still
// held. Releases are tried in the order of a stack, and in that of a queue: which
// handle is the outer one must not matter.
func reentrance(ctx context.Context, e *Env) {
	const depth = 3
	p := e.MustProcess(ctx, "n1")
	others := []*workload.Process{e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")}
	for _, order := range [][depth]int{{2, 1, 0}, {0, 1, 2}} {
		var held [depth]*workload.Tenure
		for i := range held {
			if held[i] = e.acquireAgain(ctx, p, i); held[i] == nil {
				return
			}
			e.stillHeld(ctx, others[i%2], held[i], "before its release")
		}
		for n, i := range order {
			e.Expect("release by a holder that acquired more than once", e.Release(ctx, held[i]), lockspec.OK)
			if n < depth-1 {
				e.stillHeld(ctx, others[n%2], held[order[depth-1]], "after another of its acquisitions was released")
			}
		}
		next := e.MustAcquire(ctx, others[1], e.ask("k", e.Renewal()))
		e.Expect("release by the next holder", e.Release(ctx, next), lockspec.OK)
	}
}

// acquireAgain is the i-th acquisition of one holder; the outermost is 0.
func (e *Env) acquireAgain(ctx context.Context, p *workload.Process, i int) *workload.Tenure {
	if i == 0 {
		return e.MustAcquire(ctx, p, e.ask("k", e.Renewal()))
	}
	t, err := p.Acquire(ctx, e.ask("k", e.Renewal()))
	if err != nil {
		if lockspec.OutcomeOf(err) == lockspec.Busy {
			e.Fail(checker.Contract, "not-reentrant", "a holder was refused what it holds, although reentrant is claimed")
		} else {
			e.Expect("acquire of a key by its own holder", err, lockspec.OK)
		}
		return nil
	}
	return e.keep(t)
}

// stillHeld tries the key for another, and asks its holder.
func (e *Env) stillHeld(ctx context.Context, other *workload.Process, t *workload.Tenure, when string) {
	e.expectRefusal(ctx, "a key by another "+when, other, e.ask("k", e.Renewal()))
	if e.Description.Claims(lockspec.HoldCheck) {
		e.Expect("held "+when, t.Held(ctx), lockspec.OK)
	}
}
