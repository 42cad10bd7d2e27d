package reference

import (
	"context"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Client is the engine as a lockspec.Client, which also is a
// lockspec.Describer. Its leases have every optional power that the engine
// keeps: Notifier, LossStamper, HoldChecker, Sender; Renewer and RenewalSource
// where grants are leases; Fenced where the grant has a token. Closing it
// closes the engine.
//
// With Options.Reentrant each Client is an owner of its own.
func (e *Engine) Client() lockspec.Client {
	c := client{e}
	if e.opts.Reentrant {
		return &reentrant{client: c, groups: make(map[string]*group)}
	}
	return c
}

type client struct{ e *Engine }

func (c client) Close() error { return c.e.Close() }

func (c client) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	l, err := c.take(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.dress(hold{l, l.sent, l.Release}), nil
}

func (c client) take(ctx context.Context, r lockspec.Request) (*Lease, error) {
	opts := &AcquireOptions{Lease: r.Lease, Renew: r.Renew, Mode: r.Mode, Count: r.Count}
	op, how := "acquire", (*acquisition).wait
	switch {
	case r.Wait == 0:
		op, how = "try-acquire", (*acquisition).once
	case r.Wait != lockspec.NoLimit:
		opts.Wait = r.Wait
	}
	return c.e.acquire(ctx, op, r.Key, opts, func(a *acquisition, ctx context.Context) (*Lease, error) {
		a.renewals = make(chan lockspec.Renewal, 64)
		return how(a, ctx)
	})
}

// dress gives a lease the powers that it has.
func (c client) dress(h hold) lockspec.Lease {
	_, fenced := h.l.Token()
	switch {
	case c.e.timing.Expires() && fenced:
		return struct {
			renewed
			fence
		}{renewed{h}, fence{h.l}}
	case c.e.timing.Expires():
		return renewed{h}
	case fenced:
		return struct {
			hold
			fence
		}{h, fence{h.l}}
	default:
		return h
	}
}

// hold is a lease as its client's user has it.
type hold struct {
	l       *Lease
	sent    int64
	release func(context.Context) error
}

func (h hold) Granted() time.Duration            { return h.l.Granted() }
func (h hold) Release(ctx context.Context) error { return h.release(ctx) }
func (h hold) Lost() <-chan struct{}             { return h.l.loss }
func (h hold) Sent() lockspec.Stamp              { return lockspec.Stamp(h.sent) }
func (h hold) Held(context.Context) error        { return h.l.Err() }

func (h hold) Cause() error {
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	if h.l.state != lost {
		return nil
	}
	return h.l.err
}

func (h hold) LostAt() lockspec.Stamp {
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	return lockspec.Stamp(h.l.lostAt)
}

type renewed struct{ hold }

func (r renewed) Renew(ctx context.Context, lease time.Duration) error { return r.l.Renew(ctx, lease) }
func (r renewed) Renewals() <-chan lockspec.Renewal                    { return r.l.renewals }

type fence struct{ l *Lease }

func (f fence) Token() int64 { return f.l.token }

// Describe is the backend's description with the engine's own promises added.
func (c client) Describe() lockspec.Description {
	d := c.e.desc
	d.Features = slices.Clone(d.Features)
	own := []lockspec.Feature{lockspec.Wait, lockspec.FIFO, lockspec.LossSignal, lockspec.HoldCheck,
		lockspec.Cancel, lockspec.IdempotentRelease}
	if c.e.timing.Expires() {
		own = append(own, lockspec.Renew, lockspec.AutoRenew)
	}
	if c.e.opts.Reentrant {
		own = append(own, lockspec.Reentrant)
	}
	for _, f := range own {
		if !d.Claims(f) {
			d.Features = append(d.Features, f)
		}
	}
	d.Bounds = c.e.bounds(d.Bounds)
	return d
}

// How late the engine's own timers may be on a busy machine.
const late = 100 * time.Millisecond

// bounds fills in what the engine promises and the backend has not said. An
// outage of a quarter of the lease is tolerated, since at least half of it is
// left whenever a renewal is sent; but only a lease that the options name is
// known well enough to promise it, and who asks for shorter ones is not
// promised it.
func (e *Engine) bounds(b lockspec.Bounds) lockspec.Bounds {
	orDefault(&b.Loss, late)
	orDefault(&b.Cancel, late/2)
	orDefault(&b.Poll, e.opts.MaxRetryDelay)
	orDefault(&b.KeyMax, KeyMax)
	if !e.timing.Expires() {
		return b
	}
	orDefault(&b.RenewEveryRatio, 1.0/3)
	orDefault(&b.LossMarginRatio, e.opts.Margin+0.01)
	if e.opts.leaseSet {
		orDefault(&b.Tolerates, e.opts.Lease/4)
	}
	return b
}
