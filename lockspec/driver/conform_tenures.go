package driver

import (
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// noLimit is wait_ms -1.
const noLimit = Millis(-time.Millisecond)

// slack is what a busy machine may add to a moment.
const slack = 50 * time.Millisecond

// promised checks what a grant says of its lease.
func (a *attempt) promised(s *said, k *asked) {
	r, b := s.reply, a.says.Bounds
	if r.Bounds != nil {
		b = r.Bounds.spec()
	}
	lease := time.Duration(r.LeaseMS)
	fault := func(do, format string, args ...any) { a.conformance.broken("k", s.line, do, format, args...) }
	switch {
	case lease == 0 && a.says.Class != lockspec.Session && a.says.Class != lockspec.Memory && !a.claims(lockspec.SessionLease):
		fault("answer the lease that was granted; no lease_ms means that a session holds the key", "a grant of class %s has no lease_ms", a.says.Class)
	case lease < 0:
		fault("a lease is positive", "a grant has the lease_ms %v", r.LeaseMS)
	case lease > 0 && b.LeaseMin > 0 && lease < b.LeaseMin || b.LeaseMax > 0 && lease > b.LeaseMax:
		fault("let the bounds of hello say what is granted", "a grant of %v is outside of the bounds %v to %v", lease, b.LeaseMin, b.LeaseMax)
	case a.hello.Clock == clockMonotonic && r.SentNS != 0 && (lockspec.Stamp(r.SentNS) < k.stamp || lockspec.Stamp(r.SentNS) > s.stamp):
		fault("read the clock right before the attempt that won is sent", "sent_ns of a grant is not within its request")
	}
}

func tryLoss(a *attempt) {
	a.mustClaim(lockspec.LossSignal, "a loss")
	a.mustClaim(lockspec.Renew, "a loss, which is forced by not renewing by hand")
	w := a.mustGreet("n1")
	g := w.mustLapse("p1", a.newKey())
	if g.reply.LeaseMS == 0 {
		a.gap("a loss: a session holds the key, and it cannot be cut from here")
		return
	}
	a.tried()
	lease := time.Duration(g.reply.LeaseMS)
	limit := 2*lease + a.says.Bounds.LossFor(lease) + time.Second
	checks := a.pollUntilLost(g, limit)
	if !w.until(0, func() bool { return g.lost() >= 0 }) {
		a.broken(w.saidTo(g.request).line, "write the event lost when a tenure is lost, or do not claim loss-signal", "loss-signal is claimed, and %v after a lease of %v that nobody renewed there is no event lost", limit, lease)
		return
	}
	for _, k := range checks {
		a.precedes(g, k)
	}
	a.afterLoss(g)
}

// pollUntilLost asks about a tenure, or pings where it cannot, until it is lost.
func (a *attempt) pollUntilLost(g *grant, limit time.Duration) []*asked {
	var checks []*asked
	for end := time.Now().Add(limit); time.Now().Before(end); {
		k := g.ask(Request{Op: opHeld})
		checks = append(checks, k)
		g.mustReply(k)
		if g.until(5*time.Millisecond, func() bool { return g.lost() >= 0 }) {
			break
		}
	}
	return checks
}

// precedes checks a reply that came before the event lost: it must have been
// computed before the loss was raised.
func (a *attempt) precedes(g *grant, k *asked) {
	s := g.saidTo(k)
	g.mu.Lock()
	at := g.lost()
	event := g.said[at]
	before := k.replied < at
	g.mu.Unlock()
	if !before {
		return
	}
	raised := lockspec.Stamp(event.event.DriverNS)
	stamped := a.hello.Clock == clockMonotonic && raised != 0 && raised < k.stamp
	if s.reply.Outcome == lockspec.Lost || stamped {
		a.broken(event.line, "write the event lost first, and only then a reply that was computed after the loss", "the event lost came after a reply that already knew of it: %s", s.line)
	}
}

// afterLoss asks what a former holder may not be answered ok.
func (a *attempt) afterLoss(g *grant) {
	for _, op := range []string{opHeld, opRenew, opWrite, opRelease} {
		k := g.ask(Request{Op: op})
		if r := g.mustReply(k); r.Outcome == lockspec.OK {
			a.broken(g.saidTo(k).line, "once lost was written, answer lost or not-held to whatever is asked about the tenure", "%s was asked after the event lost, and answered ok", op)
		}
	}
}

// tryBlocked: while calls wait, everything else goes on.
func tryBlocked(a *attempt) {
	w := a.mustGreet("n1")
	g := w.mustAcquire("p1", a.newKey())
	worker := w.mustAcquire("p2", a.newKey())
	a.tried()
	a.thrice(func(n int) func() {
		long := Millis(time.Second << n)
		blocked := worker.ask(Request{Op: opWrite, WorkMS: long})
		if a.claims(lockspec.Wait) {
			blocked = w.ask(Request{Op: opAcquire, Process: "p3", Key: g.key, LeaseMS: Millis(a.calm), WaitMS: long})
		}
		return a.overtakes(w, blocked, w.ask(Request{Op: opPing}), g.ask(Request{Op: opHeld}), w.ask(Request{Op: opCancel, Target: 4711}))
	})
}

// overtakes says which of the requests was answered only after one that
// blocks; nil: none.
func (a *attempt) overtakes(w *wire, blocked *asked, others ...*asked) func() {
	for _, k := range others {
		w.await(k, k.bound()+blocked.bound())
	}
	w.mustReply(blocked)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said[blocked.replied].at.Sub(blocked.sent) < time.Duration(blocked.WaitMS+blocked.WorkMS) {
		return nil // it did not block, which is another rule's
	}
	for _, k := range others {
		if k.replied < 0 || k.replied > blocked.replied {
			return func() {
				a.broken(k.line, "give every request a thread of its own, and read on", "it was answered only after a call that blocked: %s", blocked.line)
			}
		}
	}
	return nil
}

// tryFull opens as many operations as hello allows, and asks more.
func tryFull(a *attempt) {
	w := a.mustGreet("n1")
	var holders []*grant
	for i := range min(max(a.hello.MaxProcesses, 1), 16) {
		holders = append(holders, w.mustAcquire(fmt.Sprint("p", i), a.newKey()))
	}
	a.tried()
	a.thrice(func(n int) func() {
		var works []*asked
		for _, g := range holders {
			works = append(works, g.ask(Request{Op: opWrite, WorkMS: Millis(500 * time.Millisecond << n)}))
		}
		fault := a.overtakes(w, works[0], holders[0].ask(Request{Op: opHeld}))
		for _, k := range works {
			w.mustReply(k)
		}
		return fault
	})
	for _, g := range holders {
		w.mustReply(g.ask(Request{Op: opRelease}))
	}
}

func tryWait(a *attempt) {
	w := a.mustGreet("n1")
	g := w.mustAcquire("p1", a.newKey())
	a.tried()
	try := w.try("p2", g.key)
	if r := w.mustReply(try); r.Outcome == lockspec.Timeout {
		a.broken(w.saidTo(try).line, "make one attempt where wait_ms is absent or 0, and answer busy", "an acquire without a wait was answered timeout")
	}
	a.mustClaim(lockspec.Wait, "waits")
	const patience = 400 * time.Millisecond
	k := w.ask(Request{Op: opAcquire, Process: "p3", Key: g.key, LeaseMS: Millis(a.calm), WaitMS: Millis(patience)})
	r := w.mustReply(k)
	if took := w.saidTo(k).at.Sub(k.sent); (r.Outcome == lockspec.Busy || r.Outcome == lockspec.Timeout) && took < patience-slack {
		a.broken(w.saidTo(k).line, "wait for wait_ms before saying that the key was held throughout", "a wait of %v was given up after %v", patience, took.Round(time.Millisecond))
	}
	w.mustReply(g.ask(Request{Op: opRelease}))
}

func tryNoLimit(a *attempt) {
	a.mustClaim(lockspec.Wait, "a wait without limit")
	w := a.mustGreet("n1")
	g := w.mustAcquire("p1", a.newKey())
	a.tried()
	k := w.ask(Request{Op: opAcquire, Process: "p2", Key: g.key, LeaseMS: Millis(a.calm), WaitMS: noLimit})
	if r := w.await(k, 500*time.Millisecond); r != nil && (r.Outcome == lockspec.Busy || r.Outcome == lockspec.Timeout) {
		a.broken(w.saidTo(k).line, "wait without limit where wait_ms is -1", "a wait without limit was given up")
		return
	}
	w.mustReply(g.ask(Request{Op: opRelease}))
	if w.await(k, max(a.says.Bounds.Poll, time.Second)+callBound) == nil {
		a.broken(k.line, "look again at the key while a wait lasts", "the key was released, and a wait without limit never got it")
	}
}

// tryDefaultRenewal: a lease that was asked for without "renew" is kept where
// auto-renew is claimed.
func tryDefaultRenewal(a *attempt) {
	a.mustClaim(lockspec.AutoRenew, "renewal where renew is absent")
	w := a.mustGreet("n1")
	a.tried()
	a.thrice(func(int) func() {
		g := w.mustGrant(Request{Process: "p1", Key: a.newKey(), LeaseMS: Millis(a.lease)})
		end := g.request.sent.Add(2*time.Duration(g.reply.LeaseMS) + slack)
		for time.Now().Before(end) {
			k := w.try("p2", g.key)
			if r := w.mustReply(k); r.Outcome == lockspec.OK {
				return func() {
					a.broken(w.saidTo(k).line, "renew by yourself where renew is absent and auto-renew is claimed", "a lease acquired without \"renew\" was not renewed: another got its key")
				}
			}
			w.pause(20*time.Millisecond, nil)
		}
		w.mustReply(g.ask(Request{Op: opRelease}))
		return nil
	})
}

// tryUnclaimed asks for what is not claimed.
func tryUnclaimed(a *attempt) {
	w := a.mustGreet("n1")
	for _, try := range []struct {
		feature lockspec.Feature
		q       Request
	}{
		{lockspec.Wait, Request{Op: opAcquire, WaitMS: 100 * Millis(time.Millisecond)}},
		{lockspec.AutoRenew, Request{Op: opAcquire, Renew: lockspec.RenewAuto}},
		{lockspec.Shared, Request{Op: opAcquire, Mode: lockspec.Read}},
		{lockspec.Permits, Request{Op: opAcquire, Count: 2}},
		{lockspec.ClockSkew, Request{Op: opClock, OffsetMS: Millis(time.Second), Rate: 1}},
	} {
		if a.claims(try.feature) {
			continue
		}
		a.tried()
		if try.q.Op == opAcquire {
			try.q.Process, try.q.Key, try.q.LeaseMS = "p1", a.newKey(), Millis(a.lease)
		}
		k := w.ask(try.q)
		if r := w.mustReply(k); r.Outcome != lockspec.Unsupported {
			a.broken(k.line, "answer unsupported to a kind of request that hello does not claim", "%s is not claimed, and the request quoted was answered %s", try.feature, r.Outcome)
		}
	}
}

func tryOwners(a *attempt) {
	w := a.mustGreet("n1")
	g := w.mustAcquire("p1", a.newKey())
	a.tried()
	other := w.try("p2", g.key)
	if r := w.mustReply(other); r.Outcome == lockspec.OK && !a.claims(lockspec.Permits) {
		a.broken(w.saidTo(other).line, "give each process a session, connection or owner id of its own", "two processes were granted one key: the service takes them for one owner, or it does not exclude")
		return
	}
	again := w.try("p1", g.key)
	if r := w.mustReply(again); r.Outcome == lockspec.OK && !a.claims(lockspec.Reentrant) && !a.claims(lockspec.Permits) {
		a.broken(w.saidTo(again).line, "give each acquisition an owner of its own, or claim reentrant", "a process was granted a key that it holds, and reentrant is not claimed")
		return
	}
	next := w.mustAcquire("p1", a.newKey()) // a session may serve a later tenure
	w.mustReply(next.ask(Request{Op: opRelease}))
	w.mustReply(g.ask(Request{Op: opRelease}))
}

// tryPromise abandons a lease, which nobody may be granted before it is over.
func tryPromise(a *attempt) {
	a.mustClaim(lockspec.Renew, "an abandoned lease, which needs renewal by hand")
	w := a.mustGreet("n1")
	g := w.mustLapse("p1", a.newKey())
	lease := time.Duration(g.reply.LeaseMS)
	if g.reply.LeftMS != nil || lease == 0 {
		a.gap("an abandoned lease: its end is not said")
		return
	}
	a.tried()
	for end := time.Now().Add(2*lease + a.says.Bounds.Takeover + time.Second); time.Now().Before(end); {
		k := w.ask(Request{Op: opAcquire, Process: "p2", Key: g.key, LeaseMS: Millis(a.lease), Renew: lockspec.RenewManual})
		if r := w.mustReply(k); r.Outcome == lockspec.OK {
			if early := lease - w.saidTo(k).at.Sub(g.request.sent); early > 2*time.Millisecond {
				a.broken(w.saidTo(g.request).line, "answer what the service keeps for sure, not what was asked for", "another was granted the key %v before the lease quoted was over", early.Round(time.Millisecond))
			}
			return
		}
		w.pause(10*time.Millisecond, nil)
	}
	a.gap("the end of a lease: an abandoned key was not to be had again")
}

func tryChecks(a *attempt) {
	w := a.mustGreet("n1")
	g := w.mustAcquire("p1", a.newKey())
	a.tried()
	check := g.ask(Request{Op: opHeld})
	if r := w.mustReply(check); a.claims(lockspec.HoldCheck) && r.Outcome != lockspec.OK {
		a.broken(w.saidTo(check).line, "answer held ok for as long as the tenure stands", "hold-check is claimed, and held by a holder was answered %s", r.Outcome)
	}
	const work = 200 * time.Millisecond
	k := g.ask(Request{Op: opWrite, WorkMS: Millis(work)})
	r := w.mustReply(k)
	switch took := w.saidTo(k).at.Sub(k.sent); {
	case r.Outcome != lockspec.OK:
		a.broken(w.saidTo(k).line, "check what the lock offers, then work, then answer ok", "a write by a holder was answered %s", r.Outcome)
	case took < work:
		a.broken(w.saidTo(k).line, "work for work_ms between the check and the reply", "a write with %v of work was answered after %v", work, took.Round(time.Millisecond))
	case r.Token != g.reply.Token:
		a.broken(w.saidTo(k).line, "answer a write with the token of its tenure", "a write has token %d, its tenure has %d", r.Token, g.reply.Token)
	}
	w.mustReply(g.ask(Request{Op: opRelease}))
	after := g.ask(Request{Op: opHeld})
	if r := w.mustReply(after); a.claims(lockspec.HoldCheck) && r.Outcome == lockspec.OK {
		a.broken(w.saidTo(after).line, "answer lost or not-held once a tenure is over", "hold-check is claimed, and held after the release was answered ok")
	}
}
