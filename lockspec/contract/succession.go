package contract

import (
	"context"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// ownNode is a node that no other case uses, for a case that ends it.
func (e *Env) ownNode(name string) string { return e.Case.ID + "-" + name }

// mustKill ends the process of a node, which the case has to itself.
func (e *Env) mustKill(ctx context.Context, node string) {
	n := e.MustNode(ctx, node)
	e.mustStrike(ctx, history.Event{Fault: "kill", Targets: []string{node}}, n.Kill)
}

// mustTakeOver takes a key whose holder was gone by then, within the lease that
// was left to it and the takeover bound.
func (e *Env) mustTakeOver(ctx context.Context, p *workload.Process, key string, gone time.Time, lease time.Duration) *workload.Tenure {
	return e.mustTakeOverWhat(ctx, p, e.ask(key, e.Renewal()), gone, lease)
}

func (e *Env) mustTakeOverWhat(ctx context.Context, p *workload.Process, r lockspec.Request, gone time.Time, lease time.Duration) *workload.Tenure {
	within := lease + e.Description.Bounds.Takeover + 2*history.DefaultEps + lease/1000
	return e.mustObtainWhat(ctx, p, r, gone, within, checker.Finding{Kind: checker.Liveness, Rule: "takeover",
		Message: fmt.Sprintf("the key of a holder that is gone is still busy after its lease and the takeover bound, %s", within)})
}

// mustLeaveNothing takes a key that nobody holds any more. A cancelled acquisition
// may leave something behind for one lease, not for longer.
func (e *Env) mustLeaveNothing(ctx context.Context, p *workload.Process, key string, since time.Time) *workload.Tenure {
	within := e.Term() + e.Description.Bounds.Takeover + 2*history.DefaultEps
	return e.mustObtain(ctx, p, key, since, within, checker.Finding{Kind: checker.Residue, Rule: "orphan",
		Message: fmt.Sprintf("%s after a cancelled acquisition, and with no holder that anybody knows of, the key is still busy", within)})
}

// mustObtain polls for a key until it has it; the finding is for a key that was
// still busy to an attempt that began later than it may be.
func (e *Env) mustObtain(ctx context.Context, p *workload.Process, key string, since time.Time, within time.Duration, f checker.Finding) *workload.Tenure {
	return e.mustObtainWhat(ctx, p, e.ask(key, e.Renewal()), since, within, f)
}

func (e *Env) mustObtainWhat(ctx context.Context, p *workload.Process, r lockspec.Request, since time.Time, within time.Duration, f checker.Finding) *workload.Tenure {
	f.Level, f.Key = checker.Service, r.Key
	for {
		asked := time.Now()
		t, err := p.Acquire(ctx, r)
		if err == nil {
			return e.keep(t)
		}
		if lockspec.OutcomeOf(err) != lockspec.Busy {
			e.Expect("acquire of a key whose holder is gone", err, lockspec.OK)
			e.Stop()
		}
		if waited := asked.Sub(since); waited > within && waited > within+e.Stalled(ctx, since) {
			e.FailWith(f)
			e.Stop()
		}
		e.MustSleep(ctx, e.Term()/50)
	}
}

// mustStillHold probes that what somebody else did took nothing from a holder.
// The harm is named by its rule and by what was done.
func (e *Env) mustStillHold(ctx context.Context, t *workload.Tenure, third *workload.Process, key, rule, what string) {
	intruder, err := third.Acquire(ctx, e.ask(key, e.Renewal()))
	if err == nil && e.ranOut(t) {
		e.Inconclusive("the owner's lease, which nobody renews, may have run out by the time of the probe")
		_ = e.Release(ctx, e.keep(intruder))
		return
	}
	if err == nil {
		e.doubt(checker.Finding{Kind: checker.Ownership, Rule: rule, Level: checker.Service,
			Key: t.Key, Tenures: []string{t.ID, intruder.ID}, Events: []int64{t.Granted(), intruder.Granted()},
			Message: what + " freed the lock of " + t.ID + ": a third process was granted the key"})
		_ = e.Release(ctx, e.keep(intruder))
		return
	}
	e.Expect("acquire by a third process after "+what, err, lockspec.Busy)
	if e.Description.Claims(lockspec.HoldCheck) {
		e.Expect("held by the owner after "+what, t.Held(ctx), lockspec.OK)
	}
}

// mustOutlive acquires a lease that nobody renews and lets it run out.
func (e *Env) mustOutlive(ctx context.Context, p *workload.Process, key string) *workload.Tenure {
	t := e.MustAcquire(ctx, p, e.ask(key, lockspec.RenewManual))
	if t.Lease == 0 {
		e.MustUnsupported("the lock granted no lease that could run out")
	}
	e.MustSleep(ctx, t.Lease+e.Description.Bounds.Takeover)
	return t
}
