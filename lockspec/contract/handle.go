package contract

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func handleCases() []Case {
	waitAndCancel := []lockspec.Feature{lockspec.Wait, lockspec.Cancel}
	return []Case{
		{ID: "C02", Group: "handle", Name: "a cancelled wait returns within the bound and leaves nothing", Level: ClientLevel, Since: "1",
			Why:   "a request whose client has left keeps its thread, and later takes a lock that nobody wants",
			Needs: waitAndCancel, Bound: "cancel", Serial: true, Run: cancelledWait},
		{ID: "C03", Group: "handle", Name: "what an attempt wins after it was cancelled is given back", Level: HarnessLevel, Since: "1",
			Why:   "the service has granted, the caller has gone: the key is held by nobody for a whole lease, or for ever if it is renewed",
			Needs: []lockspec.Feature{lockspec.Cancel}, Run: cancelledGrant},
		{ID: "C07", Group: "handle", Name: "a lease outlives the context and the worker that acquired it, for 3 leases", Level: ClientLevel, Since: "1",
			Why:   "a lease that is renewed under the request's context dies with the request, while its work goes on",
			Needs: []lockspec.Feature{lockspec.AutoRenew}, Run: outlivesContext},
		{ID: "C09", Group: "handle", Name: "after a cancelled acquisition the key is free again", Level: ClientLevel, Since: "1",
			Why:   "a cancel that meets the grant half-way leaves a lock that no handle can release",
			Needs: waitAndCancel, Bound: "takeover", Run: cancelMeetsGrant},
	}
}

// cancelledWait measures a few cancels, and judges the best: one that came late
// may be the machine's fault.
func cancelledWait(ctx context.Context, e *Env) {
	holder, p, third := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2"), e.MustProcess(ctx, "n3")
	bound := e.Description.Bounds.Cancel
	t := e.MustAcquire(ctx, holder, e.askFor("k", e.Lease+5*bound))
	best := time.Duration(-1)
	for n := 0; n < 5 && (best < 0 || best > bound); n++ {
		w := e.await(ctx, p, "k", lockspec.NoLimit)
		defer e.leave(ctx, w)
		e.MustSleep(ctx, e.Lease/8)
		e.mustWait(ctx, w)
		start := time.Now()
		w.cancel()
		if !w.within(bound + callBound) {
			e.mustHeedCancel(ctx, bound+callBound)
		}
		e.Expect("a cancelled wait", w.err, lockspec.Cancelled)
		took := w.at.Sub(start) - e.Stalled(ctx, start)
		if errors.Is(w.err, driver.ErrNoReply) {
			took = max(took, 2*bound) // it was given up
		}
		if best < 0 || took < best {
			best = took
		}
	}
	if f := (checker.Finding{Kind: checker.Contract, Rule: "slow-cancel",
		Message: fmt.Sprintf("of 5 cancelled waits the quickest returned after %s; the bound is %s", best.Round(time.Millisecond), bound)}); best > bound+e.Lease/2 {
		e.accuse(f)
	} else if best > bound {
		e.doubt(f)
	}
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	for _, later := range []time.Duration{0, min(e.Description.Bounds.Poll, 4*e.Lease)} { // whoever still waits looks by then
		e.MustSleep(ctx, later)
		next := e.mustLeaveNothing(ctx, third, "k", time.Now())
		e.Expect("release by the next holder", e.Release(ctx, next), lockspec.OK)
	}
}

// cancelledGrant holds the reply to an attempt that won, cancels, and lets the
// reply go. The lease asked for is long, so that its end is no release.
func cancelledGrant(ctx context.Context, e *Env) {
	p, next := e.MustProcess(ctx, e.ownNode("struck")), e.MustProcess(ctx, "n2")
	held := e.MustInterfere(ctx, HoldReply, "acquire", e.Key("k"), 1)
	r, long := e.ask("k", e.Renewal()), 10*e.Lease
	if r.Lease = e.LeaseOf(long); r.Lease > 0 {
		long = r.Lease
	}
	try, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		t, err := p.Acquire(try, r)
		if err == nil {
			_ = e.Release(ctx, e.keep(t))
		}
		answered <- err
	}()
	held.MustAwait(ctx, callBound)
	cancel()
	e.MustSleep(ctx, e.Description.Bounds.Cancel)
	held.MustLift(ctx)
	since := time.Now()
	select {
	case err := <-answered:
		e.Expect("an attempt that was cancelled", err, lockspec.Cancelled, lockspec.OK)
	case <-time.After(long + callBound):
		e.mustHeedCancel(ctx, long+callBound)
	}
	t := e.mustObtain(ctx, next, "k", since, long/2, checker.Finding{Kind: checker.Residue, Rule: "orphan",
		Message: "what an attempt won after it was cancelled was not given back: the key is still busy much later"})
	e.Expect("release by the next holder", e.Release(ctx, t), lockspec.OK)
}

func outlivesContext(ctx context.Context, e *Env) {
	holder, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	var worker sync.WaitGroup
	var t *workload.Tenure
	var err error
	worker.Go(func() {
		request, end := context.WithCancel(ctx)
		defer end()
		t, err = holder.Acquire(request, e.ask("k", lockspec.RenewAuto))
	})
	worker.Wait()
	if !e.Expect("acquire of a free key", err, lockspec.OK) {
		return
	}
	e.keep(t)
	for range 9 {
		e.MustSleep(ctx, t.Lease/3)
		intruder, err := other.Acquire(ctx, e.ask("k", e.Renewal()))
		if err == nil {
			_ = e.Release(ctx, e.keep(intruder))
			e.doubt(about(t, checker.Renewal, "ended-with-context", "within three leases after the context of its acquisition had ended, another was granted the key of %s", t.ID))
			return
		}
		e.Expect("acquire while the lease is renewed", err, lockspec.Busy)
	}
	if err := t.Write(ctx, 0); lockspec.OutcomeOf(err).Effect() == lockspec.Refused {
		e.doubt(about(t, checker.Renewal, "ended-with-context", "after the context of its acquisition had ended, a write of %s was answered %s", t.ID, lockspec.OutcomeOf(err)))
		return
	}
	e.Expect("release after three leases", e.Release(ctx, t), lockspec.OK)
}

// mustHeedCancel ends the case: an acquisition did not return although it was
// cancelled so long ago.
func (e *Env) mustHeedCancel(ctx context.Context, within time.Duration) {
	f := checker.Finding{Kind: checker.Contract, Rule: "cancel-ignored", Message: fmt.Sprintf("an acquisition did not return within %s of its cancel", within)}
	if e.Stalled(ctx, time.Now().Add(-within)) > within/2 {
		e.doubt(f)
	} else {
		e.accuse(f)
	}
	e.Stop()
}

// cancelMeetsGrant releases a key and cancels the wait for it in the same
// moment, over and over. Whatever the wait answers, the key is free afterwards.
func cancelMeetsGrant(ctx context.Context, e *Env) {
	holder, third := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n3")
	near, far := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	for n := range 12 {
		p := near
		if n%3 == 2 {
			p = far
		}
		key := fmt.Sprintf("k%d", n)
		t := e.MustAcquire(ctx, holder, e.ask(key, e.Renewal()))
		w := e.await(ctx, p, key, lockspec.NoLimit)
		e.MustSleep(ctx, 10*time.Millisecond)
		var both sync.WaitGroup
		offset := time.Duration(e.Rand.Int64N(int64(2 * time.Millisecond)))
		both.Go(func() {
			time.Sleep(offset)
			w.cancel()
		})
		e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
		both.Wait()
		if !w.within(e.Description.Bounds.Cancel + callBound) {
			e.mustHeedCancel(ctx, e.Description.Bounds.Cancel+callBound)
		}
		since := time.Now()
		if w.err == nil {
			e.done(ctx, w)
		} else {
			e.Expect("a wait that was cancelled", w.err, lockspec.Cancelled)
		}
		next := e.mustLeaveNothing(ctx, third, key, since)
		if !e.Expect("release by the next holder", e.Release(ctx, next), lockspec.OK) {
			return
		}
	}
}
