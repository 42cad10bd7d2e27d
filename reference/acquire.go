package reference

import (
	"context"
	"errors"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// acquisition is one call of TryAcquire or Acquire.
type acquisition struct {
	e        *Engine
	op       string
	key      string
	opts     AcquireOptions
	claim    Claim
	attempts int

	renewals chan lockspec.Renewal // to show the lease's renewals in; nil: nobody looks

	// doubt: an attempt may have been granted and its answer is not known.
	// From then on every attempt uses the same owner, so that the grant, if
	// there is one, is found and not taken for somebody else's.
	doubt bool
	// pending is the answer of an attempt that was given up while under way.
	pending chan reply[Grant]
}

var (
	errTooLate  = errors.New("granted when the lease was used up")
	errNoAnswer = errors.New("no answer in time")
)

func (e *Engine) acquire(ctx context.Context, op, key string, opts *AcquireOptions,
	how func(*acquisition, context.Context) (*Lease, error)) (*Lease, error) {
	a := &acquisition{e: e, op: op, key: key}
	ctx, end := e.opts.Observer.Start(ctx, op)
	l, err := a.run(ctx, opts, how)
	result := End{Err: err, Attempts: a.attempts}
	if l != nil {
		result.Token = l.token
	}
	end(result)
	return l, err
}

func (a *acquisition) run(ctx context.Context, opts *AcquireOptions,
	how func(*acquisition, context.Context) (*Lease, error)) (*Lease, error) {
	if err := validKey(a.key); err != nil {
		return nil, a.refuse(err)
	}
	var err error
	if a.opts, err = a.e.resolve(opts); err != nil {
		return nil, a.refuse(err)
	}
	if err := ctx.Err(); err != nil {
		return nil, a.fail(nil, err)
	}
	if !a.e.enter() {
		return nil, a.fail(lockspec.ErrUnavailable, ErrClosed)
	}
	defer a.e.leave()
	a.claim = Claim{Key: a.e.prefix + a.key, Lease: a.opts.Lease, Mode: a.opts.Mode, Count: a.opts.Count}
	l, err := how(a, ctx)
	if err != nil {
		a.cleanUp()
	}
	return l, err
}

// once makes the one attempt of TryAcquire.
func (a *acquisition) once(ctx context.Context) (*Lease, error) { return a.try(ctx) }

// wait makes attempts until one succeeds or the wait ends.
func (a *acquisition) wait(ctx context.Context) (*Lease, error) {
	a.claim.Waits = true
	w := a.e.enqueue(a.claim.Key)
	defer a.e.dequeue(a.claim.Key, w)
	var elapsed <-chan time.Time
	if a.opts.Wait > 0 {
		t := a.e.clock.NewTimer(a.opts.Wait)
		defer t.Stop()
		elapsed = t.C
	}
	select {
	case <-w.first:
	case <-elapsed:
		return nil, a.timeout(w)
	case <-ctx.Done():
		return nil, a.fail(nil, ctx.Err())
	case <-a.e.closing:
		return nil, a.fail(lockspec.ErrUnavailable, ErrClosed)
	}
	return a.poll(ctx, w, elapsed)
}

// poll is the front waiter's loop.
func (a *acquisition) poll(ctx context.Context, w *waiter, elapsed <-chan time.Time) (*Lease, error) {
	delay := a.e.opts.MinRetryDelay
	for {
		l, err := a.try(ctx)
		if err == nil || !retryable(err) {
			return l, err
		}
		a.e.heard(w.queue, err)
		if err := a.pause(ctx, w, elapsed, a.e.jitter(delay)); err != nil {
			return nil, err
		}
		delay = min(2*delay, a.e.opts.MaxRetryDelay)
	}
}

// pause waits between two attempts; an error ends the wait.
func (a *acquisition) pause(ctx context.Context, w *waiter, elapsed <-chan time.Time, d time.Duration) error {
	t := a.e.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.poke:
	case <-elapsed:
		return a.timeout(w)
	case <-ctx.Done():
		return a.fail(nil, ctx.Err())
	case <-a.e.closing:
		return a.fail(lockspec.ErrUnavailable, ErrClosed)
	}
	return nil
}

// timeout is the error of a wait that elapsed: ErrTimeout if the service's
// last word was "held", else ErrUnavailable, lest an outage be taken for
// contention.
func (a *acquisition) timeout(w *waiter) error {
	last := a.e.told(w.queue)
	if errors.Is(last, lockspec.ErrBusy) {
		return a.fail(lockspec.ErrTimeout, nil)
	}
	var why *Error
	if errors.As(last, &why) {
		return a.fail(lockspec.ErrUnavailable, why.Err)
	}
	return a.fail(lockspec.ErrUnavailable, errNoAnswer)
}

// try makes one attempt.
func (a *acquisition) try(ctx context.Context) (*Lease, error) {
	if !a.doubt {
		a.claim.Owner = a.e.newOwner()
	}
	sent, stamp := a.e.reading(a.renewals != nil)
	g, err := a.ask(ctx)
	switch {
	case err == nil && a.e.clock.Since(sent) >= a.e.usable(orElse(g.Lease, a.claim.Lease)):
		a.doubt = true
		return nil, a.fail(lockspec.ErrUnavailable, errTooLate)
	case err == nil:
		return a.grant(ctx, g, sent, stamp)
	case ctx.Err() != nil && err == ctx.Err():
		return nil, a.fail(nil, err)
	case err == ErrClosed:
		return nil, a.fail(lockspec.ErrUnavailable, err)
	}
	if kind := refusal(err); kind != nil {
		return nil, a.fail(kind, err)
	}
	a.doubt = a.doubt || !errors.Is(err, ErrNotSent)
	if errors.As(err, new(*PanicError)) {
		return nil, a.fail(nil, err)
	}
	return nil, a.fail(lockspec.ErrUnavailable, err)
}

// ask calls the backend, after an earlier call that is still under way: an
// engine has one open attempt an acquisition, even if a backend hangs.
//
// The call is not cut off when ctx ends, only given up: a backend that is cut
// off cannot say what the service did.
func (a *acquisition) ask(ctx context.Context) (Grant, error) {
	within, cancel := a.e.clock.WithTimeout(context.WithoutCancel(ctx), a.e.attemptTimeout(a.claim.Lease))
	if a.pending != nil {
		if g, err := a.await(ctx, within); a.pending != nil {
			cancel()
			return g, err
		}
	}
	a.attempts++
	if a.e.prompt && ctx.Done() == nil { // nobody can give it up
		defer cancel()
		r := guarded(func() (Grant, error) { return a.e.backend.Attempt(within, a.claim) })
		return r.value, r.err
	}
	done, claim := make(chan reply[Grant], 1), a.claim
	go func() {
		r := guarded(func() (Grant, error) { return a.e.backend.Attempt(within, claim) })
		done <- r
		cancel()
	}()
	a.pending = done
	return a.await(ctx, within)
}

func (a *acquisition) await(ctx, within context.Context) (Grant, error) {
	select {
	case r := <-a.pending:
		a.pending = nil
		return r.value, r.err
	case <-ctx.Done():
		return Grant{}, ctx.Err()
	case <-a.e.closing:
		return Grant{}, ErrClosed
	case <-within.Done():
	}
	select { // the answer may have come in the same moment
	case r := <-a.pending:
		a.pending = nil
		return r.value, r.err
	default:
		return Grant{}, errNoAnswer
	}
}

// grant makes the lease, or gives the grant back if the engine was closed.
func (a *acquisition) grant(ctx context.Context, g Grant, sent time.Time, stamp int64) (*Lease, error) {
	l := a.e.newLease(ctx, a, g, sent, stamp)
	if !a.e.register(l) {
		a.doubt = true
		return nil, a.fail(lockspec.ErrUnavailable, ErrClosed)
	}
	l.start(g.Lost)
	return l, nil
}

// cleanUp releases what an acquisition that failed may have won.
func (a *acquisition) cleanUp() {
	if !a.doubt && a.pending == nil {
		return
	}
	claim, doubt, pending := a.claim, a.doubt, a.pending
	a.e.background.Go(func() {
		if pending != nil {
			r := <-pending
			doubt = doubt || refusal(r.err) == nil && !errors.Is(r.err, ErrNotSent)
		}
		if doubt {
			a.e.free(context.Background(), claim)
		}
	})
}

func (a *acquisition) fail(kind, err error) error {
	return a.e.failure(a.op, a.attempts, kind, err)
}

func (a *acquisition) refuse(err error) error {
	return &Error{Op: a.op, Kind: err}
}

// refusal is the kind of an error with which a backend surely granted nothing;
// nil for any other.
func refusal(err error) error {
	for _, kind := range []error{lockspec.ErrBusy, lockspec.ErrConfig, lockspec.ErrInvalidKey, lockspec.ErrUnsupported} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// retryable says whether another attempt may do better.
func retryable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Err != ErrClosed &&
		(e.Kind == lockspec.ErrBusy || e.Kind == lockspec.ErrUnavailable)
}
