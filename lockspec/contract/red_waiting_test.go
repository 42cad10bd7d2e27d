package contract_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference"
)

// redHandle are the faults of group C.
func redHandle() []red {
	return []red{
		{"C02", "a wait ends half a second after its cancel", "contract/slow-cancel", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			l, err := next(ctx, r)
			if ctx.Err() != nil {
				time.Sleep(500 * time.Millisecond)
			}
			return l, err
		}), nil},
		{"C02", "a wait does not heed its cancel", "contract/cancel-ignored", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			return next(context.WithoutCancel(ctx), r)
		}), nil},
		{"C02", "who was cancelled goes on waiting", "residue/orphan", waitBy(goesOn), nil},
		{"C03", "what was won too late is kept", "residue/orphan", backendBy(forgetsRelease), nil},
		{"C07", "a lease ends with its context", "renewal/ended-with-context", acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				l, err := next(ctx, r)
				if err == nil {
					context.AfterFunc(ctx, func() { _ = l.Release(context.Background()) })
				}
				return l, err
			}
		}), nil},
		{"C09", "who was cancelled goes on waiting", "residue/orphan", waitBy(goesOn), nil},
	}
}

// redWaiting are the faults of group D.
func redWaiting() []red {
	return []red{
		{"D01", "a wait gives up early", "contract/outcome", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			r.Wait = 20 * time.Millisecond
			return next(ctx, r)
		}), nil},
		{"D01", "a wait misses the release", "liveness/missed-release", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			return polls(ctx, r, next, time.Hour)
		}), nil},
		{"D02", "a wait is a quarter of what was asked", "contract/short-wait", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			r.Wait /= 4
			return next(ctx, r)
		}), nil},
		{"D02", "a wait that elapsed is busy", "contract/outcome", answersInstead(lockspec.ErrTimeout, lockspec.ErrBusy), nil},
		{"D03", "a try asks twice", "contract/attempts", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				_, _ = b.Attempt(ctx, c)
				return b.Attempt(ctx, c)
			}}
		}), nil},
		{"D07", "the last to come is the first to be served", "contract/queue-order", sharedWait(func() waiting { return new(stack).wait }), nil},
		{"D08", "every waiter polls", "efficiency/every-waiter-polls", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			return polls(ctx, r, next, 20*time.Millisecond)
		}), nil},
		{"D09", "nobody is woken", "efficiency/not-woken", sharedWait(func() waiting {
			c := new(chain)
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				return c.queued(ctx, r.Key, r, next, 600*time.Millisecond)
			}
		}), nil},
		{"D09", "waiters that no queue is promised to miss the release", "liveness/stuck-queue", noQueue(waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			return polls(ctx, r, next, time.Hour)
		})), nil},
		{"D10", "one who leaves stops the queue", "liveness/stuck-queue", sharedWait(stuckChain), nil},
		{"D11", "the first to leave stops the queue", "liveness/not-promoted", sharedWait(stuckChain), nil},
		{"D12", "all keys share one queue", "liveness/held-up", sharedWait(func() waiting {
			c := new(chain)
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				return c.queued(ctx, "all", r, next, 10*time.Millisecond)
			}
		}), nil},
		{"D14", "one of two never gets a turn", "liveness/starved", promisesSoon(sharedWait(func() waiting {
			var calls atomic.Int32
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				if calls.Add(1) == 10 {
					time.Sleep(r.Wait)
					return nil, lockspec.ErrTimeout
				}
				return next(ctx, r)
			}
		})), nil},
		{"D15", "a waiter that nobody tells waits for ever", "liveness/deaf-waiter", nil, func(_ testing.TB, l *lab) contract.Harness { return newMuted(l, 0) }},
		{"D16", "every error is retried", "contract/retried-in-vain", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			l, err := next(ctx, r)
			if err != nil {
				time.Sleep(r.Wait)
			}
			return l, err
		}), nil},
		{"D17", "a waiter whose session ended is never called", "liveness/waiter-hangs", nil, func(_ testing.TB, l *lab) contract.Harness { return newSessions(l, true) }},
	}
}

type waiting func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error)

// waitBy breaks acquisitions that wait.
func waitBy(wait waiting) func(*lab, string) fault {
	return sharedWait(func() waiting { return wait })
}

// sharedWait is waitBy for what all clients of a lab share.
func sharedWait(make func() waiting) func(*lab, string) fault {
	return func(l *lab, id string) fault {
		wait := make()
		return acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				if r.Wait == 0 {
					return next(ctx, r)
				}
				return wait(ctx, r, next)
			}
		})(l, id)
	}
}

// goesOn waits on when it was cancelled, and keeps what it gets.
func goesOn(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
	type answer struct {
		l   lockspec.Lease
		err error
	}
	got := make(chan answer, 1)
	go func() {
		l, err := next(context.WithoutCancel(ctx), r)
		got <- answer{l, err}
	}()
	select {
	case a := <-got:
		return a.l, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func stuckChain() waiting {
	c := new(chain)
	return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
		if r.Wait > 0 && r.Wait < labLease { // its time-out is right
			return next(ctx, r)
		}
		return c.queued(ctx, r.Key, r, next, 10*time.Millisecond)
	}
}

// noQueue promises no order among waiters, and that each looks soon.
func noQueue(make func(*lab, string) fault) func(*lab, string) fault {
	return func(l *lab, id string) fault {
		f := make(l, id)
		f.claims = func(d *lockspec.Description) {
			d.Features = without(d.Features, lockspec.FIFO)
			d.Bounds.Poll = 400 * time.Millisecond
		}
		return f
	}
}

// promisesSoon promises that a waiter sees a release soon.
func promisesSoon(make func(*lab, string) fault) func(*lab, string) fault {
	return func(l *lab, id string) fault {
		f := make(l, id)
		f.claims = func(d *lockspec.Description) { d.Bounds.Poll = 50 * time.Millisecond }
		return f
	}
}

// muted is a lab whose waiters are told of a release, and look by themselves at
// an interval; 0: never.
type muted struct {
	*lab
	hub *hub
}

func newMuted(l *lab, every time.Duration) muted {
	h := &hub{every: every}
	l.fault = acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) { return h.acquire })(l, "D15")
	return muted{l, h}
}

func (m muted) Mute(context.Context, string, int) (contract.Struck, error) {
	m.hub.mute(true)
	return m, nil
}
func (m muted) Await(context.Context) error { return nil }
func (m muted) Lift(context.Context) error {
	m.hub.mute(false)
	return nil
}

// sessions is a lab whose waiters have a session each. One that hangs does not
// notice that it ended.
type sessions struct {
	*lab
	ended chan struct{}
}

func newSessions(l *lab, hangs bool) sessions {
	s := sessions{l, make(chan struct{})}
	l.fault = waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
		session, end := context.WithCancel(ctx)
		defer end()
		go func() {
			select {
			case <-s.ended:
				end()
			case <-session.Done():
			}
		}()
		got, err := next(session, r)
		if session.Err() == nil || ctx.Err() != nil {
			return got, err
		}
		if hangs {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, lockspec.ErrUnavailable
	})(l, "D17")
	l.fault.claims = func(d *lockspec.Description) { d.Class, d.Hazards = lockspec.Consensus, nil }
	return s
}

func (s sessions) EndSessions(context.Context, string) error {
	close(s.ended)
	return nil
}
