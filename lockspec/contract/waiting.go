package contract

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func waitingCases() []Case {
	wait := []lockspec.Feature{lockspec.Wait}
	queue := []lockspec.Feature{lockspec.Wait, lockspec.FIFO}
	waitAndCancel := []lockspec.Feature{lockspec.Wait, lockspec.Cancel}
	return []Case{
		{ID: "D01", Group: "waiting", Name: "a wait ends with the release, and not before", Level: ClientLevel, Since: "1",
			Why:   "a wait that gives up early fails a job for nothing; one that misses the release waits for ever",
			Needs: wait, Run: waitForRelease},
		{ID: "D02", Group: "waiting", Name: "a wait that elapses answers timeout, no sooner and not much later", Level: ClientLevel, Since: "1",
			Why:   "who set a limit has something else to do then",
			Needs: wait, Run: waitElapses},
		{ID: "D03", Group: "waiting", Name: "no wait is exactly one attempt", Level: HarnessLevel, Since: "1",
			Why: "a try that asks twice doubles the load of everybody who polls",
			Run: oneAttempt},
		{ID: "D07", Group: "waiting", Name: "20 local waiters are granted the key in the order they came", Level: ClientLevel, Since: "1",
			Why:   "where the last to come is the first to be served, somebody waits for ever",
			Needs: queue, Limit: 60 * time.Second, Run: firstComeFirstServed},
		{ID: "D08", Group: "waiting", Name: "more local waiters do not ask the service more often", Level: HarnessLevel, Since: "1",
			Why:   "a thousand waiters that all poll are an attack on the lock service",
			Needs: wait, Long: true, Run: onlyOnePolls},
		{ID: "D09", Group: "waiting", Name: "a local release lets the next local waiter in: at once where there is a queue, else within the poll bound", Level: ClientLevel, Since: "1",
			Why:   "a queue that moves once a poll interval serves one worker a second; a waiter that misses a release waits for ever",
			Needs: wait, Bound: "poll", Serial: true, Run: wakesNext},
		{ID: "D10", Group: "waiting", Name: "waiters that give up take nobody else's place with them", Level: ClientLevel, Since: "1",
			Why:   "whoever stood behind the one that left is never called",
			Needs: waitAndCancel, Bound: "poll", Run: leavesQueue},
		{ID: "D11", Group: "waiting", Name: "where the first waiter gives up, the next takes its place", Level: ClientLevel, Since: "1",
			Why:   "if only the first one asks the service and has gone, nobody asks any more",
			Needs: waitAndCancel, Bound: "poll", Run: firstLeaves},
		{ID: "D12", Group: "waiting", Name: "waiters for different keys do not hold each other up", Level: ClientLevel, Since: "1",
			Why:   "one stuck key must not stop the others",
			Needs: wait, Run: waitersOfTwoKeys},
		{ID: "D14", Group: "waiting", Name: "two processes that alternate for 50 rounds: none starves", Level: ClientLevel, Since: "1",
			Why:   "a lock that always goes back to whoever just had it keeps the other waiting for ever",
			Needs: wait, Bound: "poll", Limit: 90 * time.Second, Run: alternate},
		{ID: "D15", Group: "waiting", Name: "a waiter whose notification is lost gets the key all the same", Level: HarnessLevel, Since: "1",
			Why:   "a message that says the key is free can be lost; the waiter must look for itself some day",
			Needs: wait, Run: notificationLost},
		{ID: "D16", Group: "waiting", Name: "what no retry can fix ends a wait at once", Level: HarnessLevel, Since: "1",
			Why:   "a wrong setting that is retried for a minute is found a minute later, on every request",
			Needs: wait, Run: hopelessWait},
		{ID: "D17", Group: "waiting", Name: "a waiter whose own session ends returns", Level: HarnessLevel, Since: "1",
			Why:   "its place in the service's queue is gone with the session: nobody will ever call it",
			Needs: wait, Run: sessionOfWaiterEnds},
	}
}

func waitForRelease(ctx context.Context, e *Env) {
	holder, p := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	t := e.MustAcquire(ctx, holder, e.askFor("k", e.Lease))
	w := e.await(ctx, p, "k", e.patience())
	defer e.leave(ctx, w)
	e.MustSleep(ctx, e.Lease/2)
	e.mustWait(ctx, w)
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	e.mustGet(ctx, w, time.Now(), e.soon(), "missed-release", "a waiter")
	e.done(ctx, w)
}

// waitElapses waits for half a lease. That it took too long is judged by what a
// driver bounds every call by: no lock claims a tighter one.
func waitElapses(ctx context.Context, e *Env) {
	holder, p := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	t := e.MustAcquire(ctx, holder, e.askFor("k", e.Lease))
	r := e.ask("k", e.Renewal())
	r.Wait = e.Lease / 2
	start := time.Now()
	next, err := p.Acquire(ctx, r)
	took := time.Since(start)
	if err == nil {
		_ = e.Release(ctx, e.keep(next))
	}
	e.Expect("a wait for a held key that elapsed", err, lockspec.Timeout)
	if took < r.Wait-history.DefaultEps-r.Wait/1000 {
		e.Fail(checker.Contract, "short-wait", "a wait of %s ended after %s", r.Wait, took)
	}
	if over := took - r.Wait - callBound; over > 0 && over > e.Stalled(ctx, start) {
		e.Fail(checker.Contract, "long-wait", "a wait of %s ended after %s", r.Wait, took)
	}
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
}

func oneAttempt(ctx context.Context, e *Env) {
	holder, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	asked := 0
	once := func(what string) {
		n := e.MustRequests(ctx, "acquire", e.Key("k"))
		if n-asked != 1 {
			e.Fail(checker.Contract, "attempts", "a try of %s asked the service %d times", what, n-asked)
		}
		asked = n
	}
	t := e.MustAcquire(ctx, holder, e.askFor("k", e.Lease))
	once("a free key")
	for range 2 {
		e.expectBusy(ctx, "a held key", other, "k")
		once("a held key")
	}
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
}

func waitersOfTwoKeys(ctx context.Context, e *Env) {
	holder, first, second := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2"), e.MustProcess(ctx, "n2")
	stuck := e.MustAcquire(ctx, holder, e.askFor("stuck", e.Lease+e.soon()))
	moving := e.MustAcquire(ctx, holder, e.askFor("moving", e.Lease))
	one := e.await(ctx, first, "stuck", e.patience())
	defer e.leave(ctx, one)
	e.MustSleep(ctx, e.Lease/10)
	two := e.await(ctx, second, "moving", e.patience())
	defer e.leave(ctx, two)
	e.MustSleep(ctx, e.Lease/10)
	e.Expect("release of the second key", e.Release(ctx, moving), lockspec.OK)
	e.mustGet(ctx, two, time.Now(), e.soon(), "held-up", "a waiter for one key, while a neighbour waits for another,")
	e.done(ctx, two)
	e.mustWait(ctx, one)
	e.Expect("release of the first key", e.Release(ctx, stuck), lockspec.OK)
	e.mustGet(ctx, one, time.Now(), e.soon(), "held-up", "the waiter for the other key")
	e.done(ctx, one)
}

// alternate has two processes of different nodes take turns. Each leaves the
// key free for longer than it held it, so that a waiter that looks meets a free
// key soon.
func alternate(ctx context.Context, e *Env) {
	const rounds = 50
	limit := e.patience()
	var both sync.WaitGroup
	for n, node := range []string{"n1", "n2"} {
		p, rng := e.MustProcess(ctx, node), e.RandFor(n)
		both.Go(func() {
			for range rounds / 2 {
				if !e.turn(ctx, p, limit) || workload.Sleep(ctx, 10*time.Millisecond+time.Duration(rng.Int64N(int64(10*time.Millisecond)))) != nil {
					return
				}
			}
		})
	}
	both.Wait()
}

// turn takes and releases the key once.
func (e *Env) turn(ctx context.Context, p *workload.Process, limit time.Duration) bool {
	r := e.ask("k", e.Renewal())
	r.Wait = limit
	start := time.Now()
	t, err := p.Acquire(ctx, r)
	took := time.Since(start)
	if lockspec.OutcomeOf(err) == lockspec.Timeout || took > limit && took > limit+e.Stalled(ctx, start) {
		f := checker.Finding{Kind: checker.Liveness, Rule: "starved", Key: r.Key, Message: fmt.Sprintf(
			"a process that alternates with another was not granted the key within %s, ten times what a waiter needs to see a release", limit)}
		if e.Stalled(ctx, start) > limit/2 {
			e.doubt(f)
		} else {
			e.accuse(f)
		}
	} else {
		e.Expect("a wait that alternates with another process's", err, lockspec.OK)
	}
	if err != nil {
		return false
	}
	_ = workload.Sleep(ctx, 2*time.Millisecond)
	return e.Expect("release of a turn", e.Release(ctx, e.keep(t)), lockspec.OK)
}

func notificationLost(ctx context.Context, e *Env) {
	p := power[Muter](e, "lose a notification")
	holder, waiting := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	t := e.MustAcquire(ctx, holder, e.askFor("k", e.Lease))
	w := e.await(ctx, waiting, "k", e.patience())
	defer e.leave(ctx, w)
	e.MustSleep(ctx, e.Lease/5)
	e.mustWait(ctx, w)
	muted, err := p.Mute(ctx, e.Key("k"), -1)
	e.mustWork(ctx, "lose a notification", err)
	defer func() { _ = muted.Lift(context.WithoutCancel(ctx)) }()
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	e.mustGet(ctx, w, time.Now(), e.Lease+e.soon(), "deaf-waiter", "a waiter whose notification was lost")
	e.done(ctx, w)
}

// hopelessWait waits with a key that is too long, or asks for a lease that is;
// the lock says of itself what is too long. A lock may grant a shorter lease
// than it was asked for: then there was nothing to refuse.
func hopelessWait(ctx context.Context, e *Env) {
	b := e.Description.Bounds
	counter := power[TrafficCounter](e, "count requests")
	p := e.MustProcess(ctx, "n1")
	var asks []lockspec.Request
	if b.KeyMax > 0 {
		r := e.ask("long", e.Renewal())
		r.Key += strings.Repeat("x", b.KeyMax+1-min(len(r.Key), b.KeyMax))
		asks = append(asks, r)
	}
	if b.LeaseMax > 0 {
		r := e.ask("k", e.Renewal())
		r.Lease = 2 * b.LeaseMax
		asks = append(asks, r)
	}
	if len(asks) == 0 {
		e.MustUnsupported("no key and no lease is too long for the lock")
	}
	for _, r := range asks {
		r.Wait = e.Lease
		start := time.Now()
		t, err := p.Acquire(ctx, r)
		took := time.Since(start)
		if err == nil {
			_ = e.Release(ctx, e.keep(t))
			continue
		}
		if !e.Expect("a wait that no retry can help", err, lockspec.InvalidKey, lockspec.Config, lockspec.Unsupported) {
			continue
		}
		n, counted := counter.Requests(ctx, "acquire", r.Key)
		e.mustWork(ctx, "count requests", counted)
		if n > 1 || took > r.Wait/2+e.Stalled(ctx, start) {
			e.Fail(checker.Contract, "retried-in-vain", "a wait that was answered %s asked the service %d times in %s", lockspec.OutcomeOf(err), n, took.Round(time.Millisecond))
		}
	}
}

// sessionOfWaiterEnds: whether the waiter starts over with a new session or
// returns an error, it must not wait for a call that cannot come.
func sessionOfWaiterEnds(ctx context.Context, e *Env) {
	if e.Description.Class != lockspec.Consensus {
		e.MustUnsupported("a waiter of this class has no session of its own")
	}
	p := power[SessionEnder](e, "end a session")
	node := e.ownNode("struck")
	holder, waiting := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, node)
	t := e.MustAcquire(ctx, holder, e.askFor("k", e.Lease))
	w := e.await(ctx, waiting, "k", lockspec.NoLimit)
	defer e.leave(ctx, w)
	e.MustSleep(ctx, e.Lease/5)
	e.mustWait(ctx, w)
	e.mustWork(ctx, "end a session", p.EndSessions(ctx, node))
	e.MustSleep(ctx, e.Lease/5)
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	if !w.within(e.Lease + e.soon()) {
		e.Fail(checker.Liveness, "waiter-hangs", "a waiter whose session had ended did not return within %s, though the key was free", e.Lease+e.soon())
		return
	}
	if w.err == nil {
		e.done(ctx, w)
	}
}
