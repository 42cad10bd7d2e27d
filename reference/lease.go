package reference

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Lease is one tenure of a key. It renews itself in the background until it is
// released or lost. It is safe for concurrent use.
//
// A lease gives exclusion among holders that run. A process that was paused
// past its deadline does not know it until it runs again, and no check can
// help it: send Token with every write, and let the resource refuse the older
// one.
type Lease struct {
	e     *Engine
	key   string
	claim Claim
	token int64
	begin time.Time

	ctx    context.Context
	cancel context.CancelCauseFunc
	loss   chan struct{} // closed when lost
	turn   chan struct{} // holds a value while a renewal is under way

	sent     int64                 // stamp of the attempt that won
	renewals chan lockspec.Renewal // nil: nobody wants to see them

	mu       sync.Mutex
	state    state
	err      error // why it is no longer held
	lease    time.Duration
	deadline time.Time        // after it the tenure is lost unless renewed
	end      time.Time        // of MaxHold; zero: none
	lostAt   int64            // stamp
	expiry   *fakeclock.Timer // at the deadline, whatever a renewal does

	auto     bool
	renewal  *fakeclock.Timer // when auto
	rtt      time.Duration    // how long renewals take
	failures int              // of renewals, since the last good one

	freed  chan struct{} // closed when the first Release is done; nil: none began
	result error         // of the first Release
}

type state int8

const (
	held     state = iota
	lost           // for good
	released       // or about to be
)

func (e *Engine) newLease(ctx context.Context, a *acquisition, g Grant, sent time.Time, stamp int64) *Lease {
	l := &Lease{
		e: e, key: a.key, claim: a.claim, token: g.Token, begin: sent, sent: stamp,
		loss: make(chan struct{}), turn: make(chan struct{}, 1),
		lease: orElse(g.Lease, a.claim.Lease), auto: a.opts.Renew == lockspec.RenewAuto,
		renewals: a.renewals,
	}
	l.claim.Lease = l.lease
	l.deadline = sent.Add(e.usable(l.lease))
	if a.opts.MaxHold > 0 {
		l.end = sent.Add(a.opts.MaxHold)
	}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return l
}

// start sets the timers, and listens to what the backend learns by itself.
func (l *Lease) start(news <-chan error) {
	l.e.opts.Observer.Granted(l.token)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rtt = l.e.clock.Since(l.begin)
	l.expiry = l.e.clock.AfterFunc(l.left(), l.expire)
	if l.auto {
		l.renewal = l.e.clock.AfterFunc(l.nextRenewal(l.begin), l.renewSelf)
	}
	if news != nil {
		go l.listen(news)
	}
}

func (l *Lease) listen(news <-chan error) {
	select {
	case err := <-news:
		l.lose(l.reasonOf(err), err)
	case <-l.ctx.Done():
	}
}

// Key is what is held.
func (l *Lease) Key() string { return l.key }

// Token is the fencing token, larger than that of every earlier tenure of the
// key; ok is false where the service has none.
func (l *Lease) Token() (token int64, ok bool) { return l.token, l.token > 0 }

// Granted is the length of the lease, 0 if a session holds the key.
func (l *Lease) Granted() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// Context carries the values of the context that the key was acquired with,
// and ends with the tenure. context.Cause then is a *LostError or ErrReleased.
func (l *Lease) Context() context.Context { return l.ctx }

// Done is closed when the tenure has ended, by loss or release.
func (l *Lease) Done() <-chan struct{} { return l.ctx.Done() }

// Err is nil while the key is held, then a *LostError or ErrReleased, for good.
// It looks at the clock, so it tells of a deadline that has passed even if the
// timer that should have told was starved.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	return l.err
}

// Held says whether the key is held right now.
func (l *Lease) Held() bool { return l.Err() == nil }

// Deadline is when the tenure is lost unless it is renewed before, on the
// engine's clock: the send of the last good renewal plus the lease less the
// margin, or the end of MaxHold.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit()
}

// Bind is a child of ctx that ends with the lease too. context.Cause tells
// which came first. The CancelFunc must be called, as context.WithCancel's.
func (l *Lease) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return bound, func() {
		stop()
		cancel(context.Canceled)
	}
}

func (l *Lease) limit() time.Time {
	if !l.end.IsZero() && l.end.Before(l.deadline) {
		return l.end
	}
	return l.deadline
}

func (l *Lease) left() time.Duration { return -l.e.clock.Since(l.limit()) }

// look ends a tenure whose time is up.
func (l *Lease) look() {
	if l.state != held || l.left() > 0 {
		return
	}
	if l.limit().Equal(l.end) {
		l.fall(MaxHold, nil)
	} else {
		l.fall(l.reasonOf(nil), nil)
	}
}

// expire is the timer's. A renewal may have moved the deadline meanwhile.
func (l *Lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.look(); l.state == held {
		l.expiry.Reset(l.left())
	}
}

func (l *Lease) lose(reason Reason, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == held {
		l.fall(reason, why)
	}
}

// fall makes a held tenure a lost one. Nothing brings it back.
func (l *Lease) fall(reason Reason, why error) {
	err := &LostError{Reason: reason, Token: l.token, After: l.e.clock.Since(l.begin), Err: why}
	l.lostAt = fakeclock.Stamp(l.e.clock)
	l.finish(lost, err)
	close(l.loss)
}

// finish ends the tenure.
func (l *Lease) finish(s state, err error) {
	l.state, l.err = s, err
	l.expiry.Stop()
	if l.renewal != nil {
		l.renewal.Stop()
	}
	l.cancel(err)
	l.e.forget(l)
	l.e.opts.Observer.Ended(l.e.clock.Since(l.begin), err)
}

// reasonOf reads a backend's error, nil for a deadline that has passed.
func (l *Lease) reasonOf(err error) Reason {
	var known *LostError
	switch {
	case errors.As(err, &known):
		return known.Reason
	case !l.e.timing.Expires():
		return ConnectionLost
	default:
		return Expired
	}
}
