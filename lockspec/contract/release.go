package contract

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func releaseCases() []Case {
	return []Case{
		{ID: "B01", Group: "release", Name: "a release frees the key for the next attempt", Level: ClientLevel, Since: "1",
			Why: "a release that does not free the key makes everybody wait for the lease to run out",
			Run: releaseFrees},
		{ID: "B04", Group: "release", Name: "a late release of an expired holder never frees the new owner's lock", Level: ClientLevel, Since: "1",
			Why:   "a plain delete takes the lock from whoever holds it now, and a third client walks in",
			Needs: []lockspec.Feature{lockspec.Renew}, Bound: "takeover",
			Run: lateRelease},
	}
}

func releaseFrees(ctx context.Context, e *Env) {
	first, second := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	r := lockspec.Request{Key: e.Key("k"), Lease: e.Lease, Renew: e.Renewal()}
	for range 3 {
		t := e.MustAcquire(ctx, first, r)
		_, err := second.Acquire(ctx, r)
		e.Expect("acquire of a held key", err, lockspec.Busy)
		if !e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK) {
			e.Stop()
		}
		next := e.MustAcquire(ctx, second, r)
		e.Expect("release by the next holder", e.Release(ctx, next), lockspec.OK)
	}
}

// lateRelease lets a lease run out unrenewed, lets another take the key, and
// releases then. Whether the late release did harm is decided by a probe: the
// new owner must still hold, and a third party must still be refused.
func lateRelease(ctx context.Context, e *Env) {
	late, owner, third := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2"), e.MustProcess(ctx, "n3")
	key := e.Key("k")
	old := e.MustAcquire(ctx, late, lockspec.Request{Key: key, Lease: e.Lease, Renew: lockspec.RenewManual})
	if old.Lease == 0 {
		e.MustUnsupported("the lock granted no lease that could run out")
	}
	e.MustSleep(ctx, old.Lease+e.Description.Bounds.Takeover)
	ask := lockspec.Request{Key: key, Lease: e.Lease, Renew: e.Renewal()}
	current := e.takeOver(ctx, owner, ask)
	err := e.Release(ctx, old)
	if lockspec.OutcomeOf(err).Effect() == lockspec.Unknown {
		e.Inconclusive("the late release: %v", err)
	}
	e.mustStillHold(ctx, current, third, ask)
	e.Expect("release by the owner", e.Release(ctx, current), lockspec.OK)
}

// takeOver takes a key whose holder is gone; the bound has passed.
func (e *Env) takeOver(ctx context.Context, p *workload.Process, r lockspec.Request) *workload.Tenure {
	t, err := p.Acquire(ctx, r)
	if err == nil {
		return e.keep(t)
	}
	if lockspec.OutcomeOf(err) == lockspec.Busy {
		e.FailWith(checker.Finding{Kind: checker.Liveness, Rule: "takeover", Level: checker.Service, Key: r.Key,
			Message: "the key of an expired holder is still busy after its lease and the takeover bound"})
	} else {
		e.Expect("acquire after the lease and the takeover bound", err, lockspec.OK)
	}
	e.Stop()
	return nil
}

// mustStillHold probes that nothing was taken from a holder.
func (e *Env) mustStillHold(ctx context.Context, t *workload.Tenure, third *workload.Process, r lockspec.Request) {
	start := time.Now()
	intruder, err := third.Acquire(ctx, r)
	if took := time.Since(start); err == nil && e.Renewal() != lockspec.RenewAuto && took > t.Lease/2 {
		e.Inconclusive("the probe took %s, the owner's lease may have run out", took)
		return
	}
	if err == nil {
		e.FailWith(checker.Finding{Kind: checker.Ownership, Rule: "late-release-freed-successor", Level: checker.Service,
			Key: t.Key, Tenures: []string{t.ID, intruder.ID}, Events: []int64{t.Granted(), intruder.Granted()},
			Message: "the late release of an expired holder freed the lock of " + t.ID + ": a third process was granted the key"})
		_ = e.Release(ctx, intruder)
		return
	}
	if e.Description.Claims(lockspec.HoldCheck) {
		e.Expect("held by the owner after another's late release", t.Held(ctx), lockspec.OK)
	}
	e.Expect("acquire by a third process", err, lockspec.Busy)
}
