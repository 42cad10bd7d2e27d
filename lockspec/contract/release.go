package contract

import (
	"context"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func releaseCases() []Case {
	return []Case{
		{ID: "B01", Group: "release", Name: "a release frees the key for the next attempt", Level: ClientLevel, Since: "1",
			Why: "a release that does not free the key makes everybody wait for the lease to run out",
			Run: releaseFrees},
		{ID: "B02", Group: "release", Name: "a second release answers as documented and touches no new owner", Level: ClientLevel, Since: "1",
			Why: "a deferred release runs after an explicit one; if it deletes again, it deletes another's lock",
			Run: releaseTwice},
		{ID: "B03", Group: "release", Name: "16 concurrent releases ask the service once", Level: HarnessLevel, Since: "1",
			Why: "each further delete is a chance to hit what another was granted between the two",
			Run: releaseTogether},
		{ID: "B04", Group: "release", Name: "a late release, or one that takes long on its way, never frees the new owner's lock", Level: ClientLevel, Since: "1",
			Why:   "a plain delete takes the lock from whoever holds it now, and a third client walks in; so does one that looked who holds it a moment ago",
			Needs: []lockspec.Feature{lockspec.Renew}, Bound: "takeover",
			Run: lateRelease},
		{ID: "B06", Group: "release", Name: "a release after the lease ran out tells so, and leaves the key usable", Level: ClientLevel, Since: "1",
			Why:   "whoever is told ok believes that its work was protected to the end",
			Needs: []lockspec.Feature{lockspec.Renew}, Bound: "takeover",
			Run: releaseExpired},
		{ID: "B07", Group: "release", Name: "a release that is retried after a lost reply spares the next owner", Level: HarnessLevel, Since: "1",
			Why: "the first try had freed the key; the second finds another's lock in its place",
			Run: releaseRetried},
		{ID: "B08", Group: "release", Name: "nothing is renewed after a release", Level: HarnessLevel, Since: "1",
			Why:   "a renewal that comes late brings a lock back that nobody holds",
			Needs: []lockspec.Feature{lockspec.AutoRenew}, Run: renewalsEnd},
		{ID: "B09", Group: "release", Name: "a released handle is of no use, and was not lost", Level: ClientLevel, Since: "1",
			Why:  "code that goes on with a released handle must be told; an alarm for a loss that was none wakes people up",
			Long: true, Run: releasedHandle},
		{ID: "B12", Group: "release", Name: "an unlock that was not confirmed is not called done, and the key comes free within the bound", Level: HarnessLevel, Since: "1",
			Why:   "an ok for a key that is still held hides why everybody waits; a connection that goes back to the pool with its lock keeps it for as long as the pool lives",
			Bound: "takeover", Long: true, Run: unlockUnconfirmed},
		{ID: "B13", Group: "release", Name: "the key of a process that ended without a release is obtainable within the bound", Level: ClientLevel, Since: "1",
			Why:   "a batch job that exits in the middle must not keep tomorrow's from running",
			Nodes: 1, Bound: "takeover", Run: exitWithoutRelease},
	}
}

func releaseFrees(ctx context.Context, e *Env) {
	first, second := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	for range 3 {
		t := e.MustAcquire(ctx, first, e.ask("k", e.Renewal()))
		e.expectBusy(ctx, "a held key", second, "k")
		if !e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK) {
			e.Stop()
		}
		next := e.MustAcquire(ctx, second, e.ask("k", e.Renewal()))
		e.Expect("release by the next holder", e.Release(ctx, next), lockspec.OK)
	}
}

// releaseTwice: ok is right for a further release only where that is claimed.
func releaseTwice(ctx context.Context, e *Env) {
	first, next, third := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2"), e.MustProcess(ctx, "n3")
	t := e.MustAcquire(ctx, first, e.ask("k", e.Renewal()))
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	e.Expect("a second release", e.Release(ctx, t), e.again()...)
	owner := e.MustAcquire(ctx, next, e.ask("k", e.Renewal()))
	if err := e.Release(ctx, t); err != nil {
		e.Expect("a release after another was granted the key", err, lockspec.Lost, lockspec.NotHeld)
	}
	e.mustStillHold(ctx, owner, third, "k", "second-release-freed-successor", "the second release of a former holder")
	e.Expect("release by the owner", e.Release(ctx, owner), lockspec.OK)
}

// again is what a further release may answer.
func (e *Env) again() []lockspec.Outcome {
	if e.Description.Claims(lockspec.IdempotentRelease) {
		return []lockspec.Outcome{lockspec.OK}
	}
	return []lockspec.Outcome{lockspec.Lost, lockspec.NotHeld}
}

func releaseTogether(ctx context.Context, e *Env) {
	const callers = 16
	before := e.MustRequests(ctx, "release", e.Key("k"))
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", e.Renewal()))
	start := time.Now()
	var all sync.WaitGroup
	answers := make([]lockspec.Outcome, callers)
	for i := range callers {
		all.Go(func() {
			err := e.Release(ctx, t)
			answers[i] = lockspec.OutcomeOf(err)
			e.Expect("one of many concurrent releases", err, lockspec.OK, lockspec.Lost, lockspec.NotHeld)
		})
	}
	all.Wait()
	for _, o := range answers {
		if o.Effect() == lockspec.Unknown {
			return // a release that is retried asks again
		}
	}
	// A machine that stalls makes a client ask again that got no answer.
	n := e.MustRequests(ctx, "release", e.Key("k")) - before
	switch stalled := e.Stalled(ctx, start); {
	case n == 1:
	case stalled < e.Lease/10:
		e.Fail(checker.Contract, "deletes", "%d concurrent releases asked the service %d times", callers, n)
	default:
		e.Inconclusive("%d concurrent releases asked the service %d times; this machine stalled for %s meanwhile", callers, n, stalled.Round(time.Millisecond))
	}
	next := e.MustAcquire(ctx, e.MustProcess(ctx, "n2"), e.ask("k", e.Renewal()))
	e.Expect("release by the next holder", e.Release(ctx, next), lockspec.OK)
}

// lateRelease lets a lease run out unrenewed, lets another take the key, and
// releases then. Whether the late release did harm is decided by a probe: the
// new owner must still hold, and a third party must still be refused.
func lateRelease(ctx context.Context, e *Env) {
	late, owner, third := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2"), e.MustProcess(ctx, "n3")
	old := e.mustOutlive(ctx, late, "k")
	current := e.mustTakeOver(ctx, owner, "k", time.Now(), 0)
	err := e.Release(ctx, old)
	if lockspec.OutcomeOf(err).Effect() == lockspec.Unknown {
		e.Inconclusive("the late release: %v", err)
	}
	e.mustStillHold(ctx, current, third, "k", "late-release-freed-successor", "the late release of an expired holder")
	e.Expect("release by the owner", e.Release(ctx, current), lockspec.OK)
	if _, can := e.Power().(Interferer); can {
		e.slowRelease(ctx, owner, third)
	}
}

// slowRelease holds back the first answer that a release gets, until the lease
// has run out and another holds the key. A release in one step was done before
// that. One that looks who holds the key and deletes it then deletes another's.
// It begins late in the lease, so that the answer comes before any client gives
// it up.
func (e *Env) slowRelease(ctx context.Context, owner, third *workload.Process) {
	t := e.MustAcquire(ctx, e.MustProcess(ctx, e.ownNode("slow")), e.ask("slow", lockspec.RenewManual))
	e.MustSleep(ctx, t.Lease*6/10)
	held := e.MustInterfere(ctx, HoldReply, "", t.Key, 1)
	asked := time.Now()
	released := make(chan struct{})
	go func() {
		defer close(released)
		_ = e.Release(ctx, t) // any answer is right
	}()
	defer func() { <-released }()
	held.MustAwait(ctx, e.Lease+callBound)
	current := e.mustTakeOver(ctx, owner, "slow", time.Now(), t.Lease)
	if late, took := asked.Sub(t.Asked), time.Since(asked); late > t.Lease*9/10 || took > t.Lease*8/10 {
		e.Inconclusive("a release was to be held on its way past its lease; it began after %s, and its answer was held for %s, so that it may have been given up", late, took)
	}
	held.MustLift(ctx)
	<-released
	e.mustStillHold(ctx, current, third, "slow", "slow-release-freed-successor", "the release of a holder that was told late who holds the key")
	e.Expect("release by the owner", e.Release(ctx, current), lockspec.OK)
}

// releaseExpired: ok to the release of an expired, untouched lease is wrong
// only where releases are claimed to check the owner, for without that check
// the service cannot know.
func releaseExpired(ctx context.Context, e *Env) {
	p, next := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	old := e.mustOutlive(ctx, p, "k")
	if err := e.Release(ctx, old); err != nil || e.Description.Claims(lockspec.OwnerChecked) {
		e.Expect("release after the lease ran out", err, lockspec.Lost, lockspec.NotHeld)
	}
	for _, p := range []*workload.Process{p, next} {
		t := e.mustTakeOver(ctx, p, "k", time.Now(), 0)
		e.Expect("write after another tenure was lost", t.Write(ctx, 0), lockspec.OK)
		e.Expect("release after another tenure was lost", e.Release(ctx, t), lockspec.OK)
	}
}

// releaseRetried loses the reply to a release, and lets another take the key
// before the release is tried again. The node is its own: a client may give up
// a connection that lost a reply, and everything else on it.
func releaseRetried(ctx context.Context, e *Env) {
	first, next, third := e.MustProcess(ctx, e.ownNode("struck")), e.MustProcess(ctx, "n2"), e.MustProcess(ctx, "n3")
	t := e.MustAcquire(ctx, first, e.ask("k", e.Renewal()))
	lost := e.MustInterfere(ctx, DropReply, "release", e.Key("k"), 1)
	released := make(chan struct{})
	go func() {
		defer close(released)
		_ = e.Release(ctx, t) // any answer is right: nobody can say what became of it
	}()
	defer func() { <-released }()
	lost.MustAwait(ctx, e.Lease+callBound)
	owner := e.MustAcquire(ctx, next, e.askFor("k", e.Lease+callBound)) // as long as a release may take
	<-released
	lost.MustLift(ctx)
	e.mustStillHold(ctx, owner, third, "k", "retry-freed-successor", "the retry of a release whose reply was lost")
	e.Expect("release by the owner", e.Release(ctx, owner), lockspec.OK)
}

func renewalsEnd(ctx context.Context, e *Env) {
	power[TrafficCounter](e, "count requests")
	count := func() int { return e.MustRequests(ctx, "renew", e.Key("k")) }
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", lockspec.RenewAuto))
	e.MustSleep(ctx, t.Lease)
	if count() == 0 {
		e.Inconclusive("nothing was renewed in a whole lease")
	}
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	before := count()
	e.MustSleep(ctx, 2*t.Lease)
	if n := count() - before; n > 0 {
		e.Fail(checker.Residue, "renews-after-release", "%d renewals were sent within two leases after the release had returned", n)
	}
}

func releasedHandle(ctx context.Context, e *Env) {
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", e.Renewal()))
	if !e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK) {
		return
	}
	if e.Description.Claims(lockspec.HoldCheck) {
		e.Expect("held of a released handle", t.Held(ctx), lockspec.NotHeld, lockspec.Lost)
		e.Expect("write with a released handle", t.Write(ctx, 0), lockspec.NotHeld, lockspec.Lost)
	}
	if e.Description.Claims(lockspec.Renew) {
		e.Expect("renew of a released handle", t.Renew(ctx, 0), lockspec.NotHeld, lockspec.Lost)
	}
	select {
	case <-t.Lost():
		e.FailWith(checker.Finding{Kind: checker.LossSignal, Rule: "after-release", Level: checker.Service, Key: t.Key,
			Tenures: []string{t.ID}, Events: []int64{t.Granted()}, Message: "the loss of " + t.ID + " was signalled after it had been released"})
	case <-time.After(t.Lease + e.Description.Bounds.LossFor(t.Lease)):
	case <-ctx.Done():
	}
	next := e.MustAcquire(ctx, e.MustProcess(ctx, "n2"), e.ask("k", e.Renewal()))
	e.Expect("release by the next holder", e.Release(ctx, next), lockspec.OK)
}

// unlockUnconfirmed loses the request of a release. It may answer ok only if
// the key is free all the same, because its lease or its session has ended; and
// that it must do soon, for a session that lives on holds it for ever. The lease
// is long, so that it does not run out while the release is tried.
func unlockUnconfirmed(ctx context.Context, e *Env) {
	p, next := e.MustProcess(ctx, e.ownNode("struck")), e.MustProcess(ctx, "n2")
	r := e.ask("k", e.Renewal())
	r.Lease = e.LeaseOf(4 * e.Lease)
	t := e.MustAcquire(ctx, p, r)
	lost := e.MustInterfere(ctx, DropRequest, "release", t.Key, -1)
	err := e.Release(ctx, t)
	gone := time.Now()
	if err == nil {
		e.mustBeDone(ctx, t, next, lost)
	}
	lost.MustLift(ctx)
	after := e.mustTakeOver(ctx, next, "k", gone, t.Lease)
	e.Expect("release by the next holder", e.Release(ctx, after), lockspec.OK)
}

// mustBeDone checks an ok to a release that never arrived.
func (e *Env) mustBeDone(ctx context.Context, t *workload.Tenure, other *workload.Process, s *Strike) {
	after, err := other.Acquire(ctx, e.ask("k", e.Renewal()))
	if err == nil {
		e.Expect("release by the next holder", e.Release(ctx, e.keep(after)), lockspec.OK)
		return
	}
	if e.Expect("acquire of a key whose release was answered ok", err, lockspec.Busy) {
		e.accuse(s.by(about(t, checker.Contract, "unconfirmed-ok", "the release of %s was answered ok although no request of it arrived, and its key is still held", t.ID)))
	}
}

func exitWithoutRelease(ctx context.Context, e *Env) {
	node := e.ownNode("leaver")
	t := e.MustAcquire(ctx, e.MustProcess(ctx, node), e.ask("k", e.Renewal()))
	n := e.MustNode(ctx, node)
	e.mustStrike(ctx, history.Event{Fault: "kill", Targets: []string{node}, Message: "it ends by itself, releasing nothing"},
		func() error { return n.Shutdown(ctx, false) })
	next := e.mustTakeOver(ctx, e.MustProcess(ctx, "n2"), "k", time.Now(), t.Lease)
	e.Expect("release by the next holder", e.Release(ctx, next), lockspec.OK)
}
