package contract

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// waiter is a process that waits for a key in the background.
type waiter struct {
	process *workload.Process
	asked   time.Time
	cancel  context.CancelFunc
	done    chan struct{} // closed when the acquisition has returned; then:

	t    *workload.Tenure
	err  error
	at   time.Time // when it returned
	over bool      // the tenure was released; for the case's own goroutine
}

// await starts a wait. The case leaves it with leave, whatever became of it.
func (e *Env) await(ctx context.Context, p *workload.Process, key string, wait time.Duration) *waiter {
	return e.awaitWhat(ctx, p, e.ask(key, e.Renewal()), wait)
}

func (e *Env) awaitWhat(ctx context.Context, p *workload.Process, r lockspec.Request, wait time.Duration) *waiter {
	ctx, cancel := context.WithCancel(ctx)
	w := &waiter{process: p, asked: time.Now(), cancel: cancel, done: make(chan struct{})}
	r.Wait = wait
	go func() {
		defer close(w.done)
		w.t, w.err = p.Acquire(ctx, r)
		if w.at = time.Now(); w.err == nil {
			e.keep(w.t)
		}
	}()
	return w
}

// within says whether the wait has ended, or does so within the time.
func (w *waiter) within(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.done:
		return true
	case <-timer.C:
		return false
	}
}

// leave gives up a wait, and what it may have won. A lock that does not heed a
// cancel is not waited for long.
func (e *Env) leave(ctx context.Context, waiters ...*waiter) {
	for _, w := range waiters {
		w.cancel()
	}
	for _, w := range waiters {
		if w.within(callBound) && w.err == nil && !w.over {
			_ = e.Release(ctx, w.t)
		}
	}
}

// done releases what a waiter won.
func (e *Env) done(ctx context.Context, w *waiter) {
	w.over = true
	e.Expect("release by a waiter that was granted the key", e.Release(ctx, w.t), lockspec.OK)
}

// mustWait ends the case if the wait for a held key has ended.
func (e *Env) mustWait(ctx context.Context, w *waiter) {
	select {
	case <-w.done:
		e.Expect("a wait for a held key, before its end,", w.err, stillWaiting)
		e.Stop()
	default:
	}
}

// stillWaiting is no outcome of a call: there is none yet.
const stillWaiting lockspec.Outcome = "still waiting"

// soon is how long a waiter may take to get a key that was freed: the poll
// bound, or, where there is none, as long as no case can tell from never.
func (e *Env) soon() time.Duration {
	if poll := e.Description.Bounds.Poll; poll > 0 {
		return poll + e.Description.Bounds.Takeover
	}
	return e.Lease + callBound
}

// patience is a wait that outlasts whatever a case does meanwhile, which may take
// a few leases.
func (e *Env) patience() time.Duration { return 4*e.Lease + 10*e.soon() }

func (e *Env) failLate(rule, what string, within time.Duration) {
	e.Fail(checker.Liveness, rule, "%s was not granted the key within %s", what, within)
}

// mustGet ends the case unless the waiter is granted the key within the time
// since then; the finding is of rule.
func (e *Env) mustGet(ctx context.Context, w *waiter, since time.Time, within time.Duration, rule, what string) {
	if w.within(time.Until(since.Add(within))); !w.within(e.Stalled(ctx, since) + e.Lease/5) {
		e.failLate(rule, what, within)
		e.Stop()
	}
	if !e.Expect(what, w.err, lockspec.OK) {
		e.Stop()
	}
	if late := w.at.Sub(since) - within; late > 0 && late > e.Stalled(ctx, since) {
		e.failLate(rule, what, within)
	}
}
