package contract

import (
	"context"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
)

// arrivals is the time between two waiters that come to a queue.
const arrivals = 10 * time.Millisecond

// mustQueue lets n waiters of one node come to the key, one after another.
func (e *Env) mustQueue(ctx context.Context, node, key string, n int) []*waiter {
	var queue []*waiter
	for range n {
		queue = append(queue, e.await(ctx, e.MustProcess(ctx, node), key, 10*e.Lease+time.Duration(n)*e.soon()))
		e.MustSleep(ctx, arrivals)
	}
	return queue
}

// firstComeFirstServed: two that came in quick succession may have changed
// places on their way to the queue; two between whom there was more time than
// that, and more than the machine stalled, may not.
func firstComeFirstServed(ctx context.Context, e *Env) {
	const waiters = 20
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.askFor("k", e.Lease+2*waiters*arrivals))
	start := time.Now()
	queue := e.mustQueue(ctx, "n1", "k", waiters)
	defer e.leave(ctx, queue...)
	apart := 4*arrivals + e.Stalled(ctx, start)
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	for range queue {
		w := e.mustNext(ctx, queue)
		for _, before := range queue {
			if !before.over && before != w && w.asked.Sub(before.asked) > apart {
				e.FailWith(checker.Finding{Kind: checker.Contract, Rule: "queue-order", Level: checker.Service, Key: w.t.Key,
					Tenures: []string{w.t.ID}, Events: []int64{w.t.Granted()},
					Message: fmt.Sprintf("a waiter was granted the key before one that had come %s earlier", w.asked.Sub(before.asked).Round(time.Millisecond))})
				return
			}
		}
		e.done(ctx, w)
	}
}

// mustNext is the waiter that is granted the key next.
func (e *Env) mustNext(ctx context.Context, queue []*waiter) *waiter {
	for start := time.Now(); ; {
		for _, w := range queue {
			if w.over || !w.within(0) {
				continue
			}
			if !e.Expect("a wait in a queue", w.err, lockspec.OK) {
				e.Stop()
			}
			return w
		}
		if waited := time.Since(start); waited > 2*e.soon() && waited > 2*e.soon()+e.Stalled(ctx, start) {
			e.failLate("stuck-queue", "no waiter of a queue", 2*e.soon())
			e.Stop()
		}
		e.MustSleep(ctx, time.Millisecond)
	}
}

// onlyOnePolls counts what one waiter asks, and what ten do in the same time.
func onlyOnePolls(ctx context.Context, e *Env) {
	const waiters = 10
	power[TrafficCounter](e, "count requests")
	p := e.MustProcess(ctx, "n1")
	asked := func(key string, n int) int {
		t := e.MustAcquire(ctx, p, e.askFor(key, 3*e.Lease+2*waiters*arrivals))
		queue := e.mustQueue(ctx, "n2", key, n)
		defer e.leave(ctx, queue...)
		e.MustSleep(ctx, 2*e.Lease)
		for _, w := range queue {
			e.mustWait(ctx, w)
		}
		count := e.MustRequests(ctx, "acquire", e.Key(key))
		for _, w := range queue {
			w.cancel()
		}
		e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
		return count - 1 // the holder's own
	}
	began := time.Now()
	one, ten := asked("one", 1), asked("ten", waiters)
	if ten > 2*one+waiters {
		e.suspect(ctx, began, checker.Finding{Kind: checker.Efficiency, Rule: "every-waiter-polls", Message: fmt.Sprintf(
			"%d waiters of one process asked the service %d times, one alone %d times in as long", waiters, ten, one)})
	}
}

// wakesNext lets all waiters go by, in whichever order. A waiter that is not
// woken finds the key by its next poll, up to the poll bound later, which is all
// that is promised where no queue is. Where one is, somebody is next, and that
// it came to its key soon by chance does not happen every time.
func wakesNext(ctx context.Context, e *Env) {
	const waiters = 5
	poll := e.Description.Bounds.Poll
	at := max(poll/4, e.Lease/10)
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.askFor("k", poll+e.Lease))
	queue := e.mustQueue(ctx, "n1", "k", waiters)
	defer e.leave(ctx, queue...)
	e.MustSleep(ctx, poll) // by now they look seldom
	late := 0
	release := func() error { return e.Release(ctx, t) }
	for range queue {
		start := time.Now()
		e.Expect("release in a queue", release(), lockspec.OK)
		w := e.mustNext(ctx, queue)
		if took := w.at.Sub(start); took > at && took > at+e.Stalled(ctx, start) {
			late++
		}
		w.over = true
		release = func() error { return e.Release(ctx, w.t) }
	}
	e.Expect("release of the last in a queue", release(), lockspec.OK)
	if late > 1 && e.Description.Claims(lockspec.FIFO) {
		e.accuse(checker.Finding{Kind: checker.Efficiency, Rule: "not-woken", Message: fmt.Sprintf(
			"%d of %d local waiters were granted the key more than %s after the local release; the poll bound is %s", late, waiters, at, poll)})
	}
}

// leavesQueue has one waiter in the middle cancelled and one time out.
func leavesQueue(ctx context.Context, e *Env) {
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.askFor("k", e.Lease))
	queue := e.mustQueue(ctx, "n1", "k", 2)
	impatient := e.await(ctx, e.MustProcess(ctx, "n1"), "k", e.Lease/4)
	cancelled := e.await(ctx, e.MustProcess(ctx, "n1"), "k", lockspec.NoLimit)
	e.MustSleep(ctx, arrivals)
	queue = append(queue, e.mustQueue(ctx, "n1", "k", 2)...)
	defer e.leave(ctx, append(queue, impatient, cancelled)...)
	cancelled.cancel()
	e.mustEnd(cancelled, e.Description.Bounds.Cancel+callBound, lockspec.Cancelled)
	e.mustEnd(impatient, e.Lease/4+callBound, lockspec.Timeout)
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	for range queue {
		e.done(ctx, e.mustNext(ctx, queue))
	}
}

// mustEnd ends the case unless a wait ends within the time, as it has to.
func (e *Env) mustEnd(w *waiter, within time.Duration, right lockspec.Outcome) {
	if !w.within(within) {
		e.doubt(checker.Finding{Kind: checker.Contract, Rule: "waiter-hangs", Message: fmt.Sprintf("a wait did not end within %s; right is %s", within, right)})
		e.Stop()
	}
	if w.err == nil { // it is still to be given back
		e.Expect("a waiter that leaves a queue", w.err, right)
		e.Stop()
	}
	e.Expect("a waiter that leaves a queue", w.err, right)
}

// firstLeaves releases from another node, so that no local wake hides that
// nobody looks.
func firstLeaves(ctx context.Context, e *Env) {
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.askFor("k", e.Lease))
	first := e.await(ctx, e.MustProcess(ctx, "n2"), "k", lockspec.NoLimit)
	e.MustSleep(ctx, arrivals)
	next := e.await(ctx, e.MustProcess(ctx, "n2"), "k", e.patience())
	defer e.leave(ctx, first, next)
	e.MustSleep(ctx, e.Lease/4)
	first.cancel()
	e.mustEnd(first, e.Description.Bounds.Cancel+callBound, lockspec.Cancelled)
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	e.mustGet(ctx, next, time.Now(), e.soon(), "not-promoted", "the waiter behind one that gave up")
	e.done(ctx, next)
}
