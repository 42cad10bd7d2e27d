package reference

import (
	"context"
	"errors"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Release ends the tenure: from the moment of the call it is no longer held,
// whatever the answer. It may be called often and concurrently: all calls,
// later ones too, share one release and its answer.
//
// ctx gives values only: a release goes on though ctx has ended, and takes no
// longer than Options.ReleaseTimeout. ErrLost: the tenure was lost before.
// ErrUnavailable: it is not known whether the service freed the key, or had
// lost it before; it is free at the latest when the lease ends, because nothing
// renews it any more.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	l.look()
	if l.freed != nil {
		l.mu.Unlock()
		return l.awaitRelease()
	}
	l.freed = make(chan struct{})
	err := l.err
	if l.state == held {
		l.finish(released, ErrReleased)
	}
	l.mu.Unlock()

	defer close(l.freed)
	ctx, end := l.e.opts.Observer.Start(context.WithoutCancel(ctx), "release")
	if err != nil {
		l.result = err
		l.sweep(ctx, err)
	} else {
		l.result = l.free(ctx)
	}
	end(End{Err: l.result, Attempts: 1, Token: l.token})
	l.e.wake(l.claim.Key)
	return l.result
}

// awaitRelease waits for the first Release, which is bounded.
func (l *Lease) awaitRelease() error {
	<-l.freed
	return l.result
}

func (l *Lease) free(ctx context.Context) error {
	l.awaitRenewal()
	err := l.e.free(ctx, l.claim)
	if err == nil {
		return nil
	}
	if definite(err) {
		return &LostError{Reason: l.reasonOf(err), Token: l.token, After: l.e.clock.Since(l.begin), Err: err}
	}
	return l.e.failure("release", 1, lockspec.ErrUnavailable, err)
}

// awaitRenewal lets a renewal under way end, so that none is sent once Release
// has returned. Its context has ended; a backend that ignores it is not
// waited for long.
func (l *Lease) awaitRenewal() {
	select {
	case l.turn <- struct{}{}:
		return
	default:
	}
	t := l.e.clock.NewTimer(l.e.opts.ReleaseTimeout / 4)
	defer t.Stop()
	select {
	case l.turn <- struct{}{}:
	case <-t.C:
	}
}

// sweep frees what a lost tenure may have left: one delete, by owner. A key
// that another holds is left alone.
func (l *Lease) sweep(ctx context.Context, why error) {
	var loss *LostError
	if errors.As(why, &loss) && (loss.Reason == TakenOver || loss.Reason == ConnectionLost) {
		return
	}
	l.e.releaseOnce(ctx, l.claim, l.e.releaseTry(l.claim))
}

// free releases a claim, and tries again until it is known that the owner
// holds the key no more, or ReleaseTimeout has passed. Retrying is safe: the
// service frees the key for this owner only, and no later grant has it.
func (e *Engine) free(ctx context.Context, c Claim) error {
	begin := e.clock.Now()
	var unsure error
	for delay := e.opts.MinRetryDelay; ; delay = min(2*delay, e.opts.MaxRetryDelay) {
		left := e.opts.ReleaseTimeout - e.clock.Since(begin)
		if left <= 0 {
			return unsure
		}
		err := e.releaseOnce(ctx, c, min(left, e.releaseTry(c)))
		switch {
		case err == nil:
			return nil
		case definite(err):
			return settled(err, unsure)
		}
		unsure = err
		e.clock.Sleep(ctx, min(e.opts.ReleaseTimeout-e.clock.Since(begin), e.jitter(delay)))
	}
}

// settled is the outcome of a release that was refused. If an earlier try had
// no answer, that try may have freed the key, or the tenure may have been over
// before it: nobody knows, whoever holds the key now.
//
// Counter-example to taking a free key for the first try's doing: the service
// restarted and forgot the key, another held it and gave it back, and then this
// tenure's release lost its reply. An ok would say that the work was protected.
func settled(refusal, unsure error) error {
	if unsure != nil {
		return unsure
	}
	return refusal
}

func (e *Engine) releaseOnce(ctx context.Context, c Claim, timeout time.Duration) error {
	ctx, cancel := e.clock.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := call(ctx, e.prompt, func() (struct{}, error) { return struct{}{}, e.backend.Release(ctx, c) })
	return err
}

// releaseTry bounds one try, so that several fit.
func (e *Engine) releaseTry(c Claim) time.Duration {
	return min(e.attemptTimeout(c.Lease), e.opts.ReleaseTimeout/4)
}
