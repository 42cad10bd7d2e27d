package contract

import (
	"context"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// The cases of group renewal that are about the end of a lease.

// lostIsFree lets a tenure run out. From the moment of its loss another must
// get the key within a lease.
func lostIsFree(ctx context.Context, e *Env) {
	other := e.MustProcess(ctx, "n2")
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", lockspec.RenewManual))
	e.mustLeased(t)
	granted := time.Now()
	e.mustLose(ctx, t, granted, t.Lease+e.Description.Bounds.LossFor(t.Lease), about(t, checker.LossSignal, "too-late", "nobody renewed %s", t.ID))
	e.mustBeFree(ctx, other, "k", t.Lease, time.Now(), about(t, checker.Liveness, "takeover", "the key of %s was not to be had after its loss", t.ID))
}

// lateGrant holds the reply of the one attempt for longer than the lease. The
// answer may be anything but ok; and if it is unknown, nobody must renew in the
// background what was not handed out.
func lateGrant(ctx context.Context, e *Env) {
	p, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	key := e.Key("k")
	s := e.MustInterfere(ctx, HoldReply, "acquire", key, 1)
	answered := make(chan struct{})
	var t *workload.Tenure
	var err error
	start := time.Now()
	go func() {
		defer close(answered)
		t, err = p.Acquire(ctx, e.ask("k", e.Renewal()))
	}()
	s.MustAwait(ctx, e.Lease+5*time.Second)
	struck := time.Now()
	e.MustSleep(ctx, e.Term()+e.Term()/4)
	s.MustLift(ctx)
	lifted := time.Now()
	<-answered
	if err == nil {
		e.keep(t)
		if t.Lease == 0 || t.Lease > lifted.Sub(struck) {
			_ = e.Release(ctx, t)
			e.MustUnsupported("the lock granted %s, which the reply did not use up", t.Lease)
		}
		if e.MustRequests(ctx, "acquire", key) == 1 {
			e.accuse(s.by(about(t, checker.Contract, "late-grant", "the reply that granted %s took %s, its lease is %s: it was handed out when it had run out",
				t.ID, time.Since(start).Round(time.Millisecond), t.Lease)))
		}
		_ = e.Release(ctx, t)
	}
	e.mustBeFree(ctx, other, "k", e.Term(), lifted, orphan("after a grant that came too late"))
}

// mustBeFree checks that a key which nobody may hold since then is obtainable
// within a lease and the takeover bound, f is the finding if it is not. What
// counts is when the last attempt was sent that was still refused.
func (e *Env) mustBeFree(ctx context.Context, p *workload.Process, key string, lease time.Duration, since time.Time, f checker.Finding) {
	bound := lease + e.Description.Bounds.Takeover
	wait, cancel := context.WithTimeout(ctx, 2*bound+time.Second)
	defer cancel()
	f.Key = e.Key(key)
	var refused time.Duration
	for {
		sent := time.Since(since)
		next, err := p.Acquire(wait, e.ask(key, e.Renewal()))
		switch lockspec.OutcomeOf(err) {
		case lockspec.OK:
			f.Tenures, f.Events = append(f.Tenures, next.ID), append(f.Events, next.Granted())
			e.inTime(ctx, since, refused, bound, f)
			e.Expect("release by the next holder", e.Release(ctx, e.keep(next)), lockspec.OK)
			return
		case lockspec.Busy:
			refused = sent
		case lockspec.Unavailable:
		default:
			e.Expect("acquire of a free key", err, lockspec.OK, lockspec.Busy)
			e.stop()
		}
		if workload.Sleep(wait, e.Term()/50) != nil {
			break
		}
	}
	if ctx.Err() == nil && e.inTime(ctx, since, refused, bound, f) {
		e.Inconclusive("the key was not to be had within %s, and the service gave no answer", time.Since(since).Round(time.Millisecond))
	}
	e.stop()
}

// orphan is the finding of a key that nobody can hold and nobody can have.
func orphan(when string) checker.Finding {
	return checker.Finding{Kind: checker.Residue, Rule: "orphan", Message: "the key was not to be had " + when}
}

// leaseOutOfRange asks for leases that the lock says it does not take. A lock
// may grant another lease than was asked for, but none outside of its range.
func leaseOutOfRange(ctx context.Context, e *Env) {
	b := e.Description.Bounds
	if b.LeaseMin == b.LeaseMax {
		e.MustUnsupported("the lock has one fixed lease")
	}
	p := e.MustProcess(ctx, "n1")
	asked := map[string]time.Duration{"below the minimum": b.LeaseMin / 2}
	if b.LeaseMax > 0 {
		asked["above the maximum"] = 2 * b.LeaseMax
	}
	for what, lease := range asked {
		if lease <= 0 {
			continue
		}
		t, err := p.Acquire(ctx, lockspec.Request{Key: e.Key("k"), Lease: lease, Renew: e.Renewal()})
		if err != nil {
			e.Expect(fmt.Sprintf("acquire with the lease %s, %s", lease, what), err, lockspec.Config)
			continue
		}
		_ = e.Release(ctx, e.keep(t))
		if t.Lease < b.LeaseMin || b.LeaseMax > 0 && t.Lease > b.LeaseMax {
			e.accuse(about(t, checker.Contract, "lease-out-of-range", "a lease of %s was granted; what is accepted is %s to %s", t.Lease, b.LeaseMin, b.LeaseMax))
		}
	}
	t := e.MustAcquire(ctx, p, e.ask("k", e.Renewal()))
	e.Expect("release after refused leases", e.Release(ctx, t), lockspec.OK)
}

// wallClockOff steps one node's wall clock an hour ahead, another's an hour
// back. Neither may take what the other holds, nor lose what it holds itself,
// and what is abandoned ends on time. Both are the case's own, for every process
// on a node has its clock.
func wallClockOff(ctx context.Context, e *Env) {
	n1, n2 := e.ownNode("ahead"), e.ownNode("back")
	ahead, back := e.MustNode(ctx, n1), e.MustNode(ctx, n2)
	defer func() { // a node keeps its clock for the cases that follow
		heal, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _ = ahead.SetClock(heal, 0, 1), back.SetClock(heal, 0, 1)
	}()
	for _, hours := range []time.Duration{1, -1} {
		e.mustWork(ctx, "shift a node's clock", ahead.SetClock(ctx, hours*time.Hour, 1))
		e.mustWork(ctx, "shift a node's clock", back.SetClock(ctx, -hours*time.Hour, 1))
		start := time.Now()
		t := e.MustAcquire(ctx, e.MustProcess(ctx, n1), e.ask("k", e.Renewal()))
		e.mustKeep(ctx, start, t, e.MustProcess(ctx, n2), 4, e.Lease/8, time.Time{})
		if e.stands(ctx, start, t, about(t, checker.LossSignal, "false", "%s was lost although only wall clocks were stepped", t.ID)) {
			e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
		}
		if !e.Description.Claims(lockspec.Renew) {
			continue
		}
		t = e.MustAcquire(ctx, e.MustProcess(ctx, n1), e.ask("abandoned", lockspec.RenewManual))
		e.mustBeFree(ctx, e.MustProcess(ctx, n2), "abandoned", t.Lease, time.Now(), orphan("after its lease had run out, with a wall clock an hour off"))
	}
}

// manualMode renews one tenure by hand through two leases, then stops. (That it
// ended no earlier than its lease is the checker's to say.)
func manualMode(ctx context.Context, e *Env) {
	p, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	start := time.Now()
	sent := start // the lease counts from here at the earliest
	t := e.MustAcquire(ctx, p, e.ask("k", lockspec.RenewManual))
	e.mustLeased(t)
	for range 6 {
		e.MustSleep(ctx, t.Lease/3)
		now := time.Now()
		if err := t.Renew(ctx, 0); err != nil {
			said := lockspec.OutcomeOf(err)
			e.lapsed(t, sent, fmt.Sprintf("a renewal by hand was answered %s", said))
			e.suspect(ctx, start, about(t, checker.Renewal, "refused", "a renewal by hand of %s, in time, was answered %s", t.ID, said))
			e.stop()
		}
		sent = now
		e.mustKeep(ctx, start, t, other, 1, 0, sent)
	}
	renewed := time.Now()
	e.mustBeFree(ctx, other, "k", t.Lease, renewed, orphan("after its holder had stopped to renew it"))
	e.isOver(ctx, t, about(t, checker.LossSignal, "resurrected", "the lease of %s had ended, and another had held the key", t.ID))
}

// lapsed ends the case as undecided where what was seen came so long after the
// send that a lease counts from that the lease may be over. Where calls are slow
// it is, though this machine never stalled.
func (e *Env) lapsed(t *workload.Tenure, sent time.Time, what string) {
	after := time.Since(sent)
	if after < t.Lease-e.Description.Bounds.LossMarginFor(t.Lease)-e.eps(t.Lease) {
		return
	}
	e.Inconclusive("%s, %s after what the lease of %s counts from: calls are too slow for a lease of %s", what, after.Round(time.Millisecond), t.ID, t.Lease)
	e.stop()
}
