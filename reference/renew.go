package reference

import (
	"context"
	"errors"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Renew renews the tenure by hand, asking for a lease of that length, or of
// the granted one if it is 0. It is meant for a lease acquired with
// RenewManual, and harmless for others.
//
// A *LostError: the tenure is over, whatever the answer was. ErrUnavailable:
// there was no answer; the tenure stands until its deadline, which a shorter
// lease has drawn nearer, because the service may have heard.
func (l *Lease) Renew(ctx context.Context, lease time.Duration) error {
	ctx, end := l.e.opts.Observer.Start(ctx, "renew")
	err := l.renew(ctx, lease)
	end(End{Err: err, Attempts: 1, Token: l.token})
	return err
}

func (l *Lease) renew(ctx context.Context, lease time.Duration) error {
	orDefault(&lease, l.Granted())
	if l.e.timing.Expires() {
		var p problems
		p.lease(lease, l.e.desc.Bounds)
		if err := p.err(); err != nil {
			return l.e.failure("renew", 0, lockspec.ErrConfig, err)
		}
	}
	select {
	case l.turn <- struct{}{}:
	case <-l.ctx.Done():
		return l.Err()
	case <-ctx.Done():
		return l.e.failure("renew", 0, nil, ctx.Err())
	}
	err := l.renewOnce(ctx, lease, l.e.attemptTimeout(lease))
	if lossErr := l.Err(); lossErr != nil || err == nil {
		return lossErr
	}
	if ctx.Err() != nil {
		return l.e.failure("renew", 1, nil, ctx.Err())
	}
	return l.e.failure("renew", 1, lockspec.ErrUnavailable, err)
}

// renewSelf is the timer's.
func (l *Lease) renewSelf() {
	select {
	case l.turn <- struct{}{}:
	case <-l.ctx.Done():
		return
	}
	began := l.e.clock.Now()
	err := l.renewOnce(context.Background(), l.Granted(), l.patience())

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != held {
		return
	}
	if err != nil {
		l.failures++
		l.renewal.Reset(l.retryDelay())
		return
	}
	l.failures = 0
	l.renewal.Reset(l.nextRenewal(began))
}

// renewOnce sends one renewal and draws the consequences. The caller has the
// turn, which passes to the backend's call: a backend that ignores its context
// keeps it, and gets no second renewal meanwhile.
func (l *Lease) renewOnce(ctx context.Context, lease, timeout time.Duration) error {
	ctx, cancel := l.e.clock.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, unbind := l.Bind(ctx)
	defer unbind()

	sent, stamp := l.e.reading(l.renewals != nil)
	if !l.sending(sent, lease) {
		<-l.turn
		return l.Err()
	}
	claim := l.claim
	claim.Lease = lease
	_, err := call(ctx, l.e.prompt, func() (struct{}, error) {
		defer func() { <-l.turn }()
		return struct{}{}, l.e.backend.Renew(ctx, claim)
	})
	l.answered(sent, stamp, lease, err)
	return err
}

// sending notes that a renewal goes out. From now on the service may have
// granted a shorter lease.
func (l *Lease) sending(sent time.Time, lease time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	if l.state != held {
		return false
	}
	if d := sent.Add(l.e.usable(lease)); d.Before(l.deadline) {
		l.deadline = d
		l.expiry.Reset(l.left())
	}
	return true
}

// answered takes a renewal's answer in. One that comes after the loss changes
// nothing.
func (l *Lease) answered(sent time.Time, stamp int64, lease time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look()
	if l.state != held {
		return
	}
	l.rtt = max(l.e.clock.Since(sent), l.rtt/2)
	switch {
	case err == nil:
		l.lease = lease
		l.deadline = sent.Add(l.e.usable(lease))
		l.expiry.Reset(l.left())
		l.show(lockspec.Renewal{Sent: lockspec.Stamp(stamp), Lease: lease})
	case definite(err):
		l.fall(l.reasonOf(err), err)
	}
}

// show puts a renewal where the client's user sees it; who does not look
// misses the oldest.
func (l *Lease) show(r lockspec.Renewal) {
	for l.renewals != nil {
		select {
		case l.renewals <- r:
			return
		default:
		}
		select {
		case <-l.renewals:
		default:
		}
	}
}

// definite says whether a backend's error means that the owner is no holder.
func definite(err error) bool {
	return errors.Is(err, lockspec.ErrNotHeld) || errors.Is(err, lockspec.ErrLost)
}

// nextRenewal is how long to wait after a good renewal that was sent then: a
// third of the lease from its send, and less if replies are so slow that a
// failed renewal and its successor would not fit before the deadline.
func (l *Lease) nextRenewal(sent time.Time) time.Duration {
	after := min(l.e.span(l.lease)/3, l.e.usable(l.lease)-3*l.rtt)
	return max(0, after-l.e.clock.Since(sent))
}

// patience is how long a renewal may take before the next is tried.
func (l *Lease) patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(min(max(l.e.usable(l.lease)/4, 3*l.rtt), l.left()), time.Nanosecond)
}

// retryDelay is the pause after a failed renewal: short against the lease, and
// doubling.
func (l *Lease) retryDelay() time.Duration {
	span := l.e.span(l.lease)
	return l.e.jitter(min(span/64<<min(l.failures-1, 3), span/12))
}
