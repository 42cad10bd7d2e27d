package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// hello opens the lock. It does not wait for the service.
func (s *server) hello(q *Request) answer {
	s.mu.Lock()
	again := s.greeted
	s.greeted = true
	s.mu.Unlock()
	if again {
		return failure(errHello)
	}
	if !slices.Contains(q.Versions, Version) {
		a := failure(errVersion)
		a.last, a.end = true, errVersion
		return a
	}
	lock, err := s.open(s.ctx, Target{URL: q.URL, Endpoints: q.Endpoints, Node: q.Node, Incarnation: q.Incarnation})
	if err != nil {
		a := failure(err)
		a.last, a.end = true, fmt.Errorf("%w: %w", errOpen, err)
		return a
	}
	says := lock.Describe()
	s.mu.Lock()
	s.lock, s.says = lock, says
	s.mu.Unlock()
	a := answer{Reply: hello(says)}
	if a.NowNS = now(); a.NowNS != 0 {
		a.Clock = clockMonotonic
	}
	return a
}

// cancel ends an open request, whichever it is. Its own reply decides.
func (s *server) cancel(target int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.requests[target]; r != nil {
		r.cancel()
	}
}

func (s *server) ping(ctx context.Context, q *Request) answer {
	var err error
	if q.Service {
		pinger, can := s.lock.(Pinger)
		if !can {
			return failure(fmt.Errorf("%w: this driver cannot ask its service without acquiring", lockspec.ErrUnsupported))
		}
		err = s.call(ctx, pinger.Ping)
	}
	a := failure(err)
	a.NowNS = now()
	return a
}

func (s *server) clock(q *Request) answer {
	setter, can := s.lock.(ClockSetter)
	if !can || !s.says.Claims(lockspec.ClockSkew) {
		return failure(fmt.Errorf("%w: %s is not claimed", lockspec.ErrUnsupported, lockspec.ClockSkew))
	}
	rate := q.Rate
	if rate == 0 {
		rate = 1
	}
	return failure(setter.SetClock(time.Duration(q.OffsetMS), rate))
}

// acquire takes a key.
func (s *server) acquire(ctx context.Context, q *Request) answer {
	t, err := s.enter(ctx, q)
	if err != nil {
		return failure(err)
	}
	a := answer{granted: t}
	a.Lease, a.Token, a.LeaseMS = t.id, t.token(), Millis(t.lease.Granted())
	if sender, can := t.lease.(lockspec.Sender); can {
		a.SentNS = Nanos(sender.Sent())
	}
	if partly, can := t.lease.(lockspec.Remainder); can {
		if left, ok := partly.Left(); ok {
			a.LeftMS = new(Millis)
			*a.LeftMS = Millis(left)
		}
	}
	if d, can := t.lease.(lockspec.Describer); can {
		says := d.Describe()
		a.Features, a.Bounds = wireFeatures(says), wireBounds(says.Bounds)
	}
	return a
}

// enter acquires and gives the tenure its id.
func (s *server) enter(ctx context.Context, q *Request) (*tenure, error) {
	if err := s.claimed(q); err != nil {
		return nil, err
	}
	o := s.owner(q.Process)
	defer s.idle(o)
	limit := callBound + time.Duration(q.WaitMS)
	if q.WaitMS < 0 {
		limit = forever
	}
	acquire := func(ctx context.Context) (lockspec.Lease, error) {
		client, err := o.client()
		if err != nil {
			return nil, err
		}
		lease, err := client.Acquire(ctx, q.acquisition())
		if lease == nil && err == nil {
			err = errors.New("the client returned neither a lease nor an error")
		}
		return lease, err
	}
	lease, err := bounded(ctx, limit, s.safely(acquire), giveBack)
	if err != nil {
		return nil, err
	}
	return s.admitTenure(o, lease), nil
}

// claimed refuses what the lock does not claim to offer.
func (s *server) claimed(q *Request) error {
	for _, use := range []struct {
		asked   bool
		feature lockspec.Feature
	}{
		{q.WaitMS != 0, lockspec.Wait},
		{q.Renew == lockspec.RenewAuto, lockspec.AutoRenew},
		{q.Mode != lockspec.Exclusive, lockspec.Shared},
		{q.Count > 1, lockspec.Permits},
	} {
		if use.asked && !s.says.Claims(use.feature) {
			return fmt.Errorf("%w: %s is not claimed", lockspec.ErrUnsupported, use.feature)
		}
	}
	return nil
}

// giveBack releases a grant that came after its request was answered.
func giveBack(lease lockspec.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), callBound)
	defer cancel()
	_ = lease.Release(ctx) // its lease ends it if this does not
}

// onTenure carries out what concerns a tenure that was granted before.
func (s *server) onTenure(ctx context.Context, q *Request) answer {
	t := s.tenure(q.Lease)
	if t == nil {
		return failure(fmt.Errorf("%w: unknown lease %q", lockspec.ErrNotHeld, q.Lease))
	}
	switch q.Op {
	case opHeld:
		return failure(s.held(ctx, t))
	case opRenew:
		return s.renew(ctx, q, t)
	case opWrite:
		return s.write(ctx, q, t)
	default:
		return failure(s.release(ctx, t))
	}
}

// call is bounded for calls that return an error only.
func (s *server) call(ctx context.Context, f func(context.Context) error) error {
	_, err := bounded(ctx, callBound, s.safely(func(ctx context.Context) (lockspec.Lease, error) { return nil, f(ctx) }), nil)
	return err
}

func (s *server) held(ctx context.Context, t *tenure) error {
	if t.doubted() {
		return errDoubt
	}
	checker, can := t.lease.(lockspec.HoldChecker)
	if !can {
		return fmt.Errorf("%w: %s is not claimed", lockspec.ErrUnsupported, lockspec.HoldCheck)
	}
	return s.call(ctx, checker.Held)
}

func (s *server) renew(ctx context.Context, q *Request, t *tenure) answer {
	renewer, can := t.lease.(lockspec.Renewer)
	if !can {
		return failure(fmt.Errorf("%w: %s is not claimed", lockspec.ErrUnsupported, lockspec.Renew))
	}
	a := failure(s.call(ctx, func(ctx context.Context) error { return renewer.Renew(ctx, time.Duration(q.LeaseMS)) }))
	if a.Outcome == "" {
		a.LeaseMS = Millis(t.lease.Granted())
	}
	return a
}

// write does what an application does: check what the lock offers, work, then
// write, without a second check. A pause in the work is what fencing is for.
func (s *server) write(ctx context.Context, q *Request, t *tenure) answer {
	if err := s.check(ctx, t); err != nil {
		return failure(err)
	}
	if err := work(ctx, time.Duration(q.WorkMS)); err != nil {
		return failure(err)
	}
	return answer{Reply: Reply{Token: t.token()}}
}

// check is the check before a write: a loss that was raised, then whatever the
// lock offers.
func (s *server) check(ctx context.Context, t *tenure) error {
	if err := t.cause(); err != nil {
		return err
	}
	err := s.held(ctx, t)
	if errors.Is(err, lockspec.ErrUnsupported) {
		return nil
	}
	return err
}

func work(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *server) release(ctx context.Context, t *tenure) error {
	err := s.call(ctx, t.lease.Release)
	if lockspec.OutcomeOf(err).Effect() != lockspec.Unknown {
		s.retire(t, err == nil)
	}
	return err
}

// section acquires, works and releases in one request.
func (s *server) section(ctx context.Context, q *Request) answer {
	t, err := s.enter(ctx, q)
	if err != nil {
		return failure(err)
	}
	s.sending.Lock()
	s.emit(Event{Event: eventEntered, Request: q.ID, Lease: t.id, Token: t.token(), LeaseMS: Millis(t.lease.Granted())})
	s.watch(t)
	s.sending.Unlock()
	worked := work(ctx, time.Duration(q.WorkMS))
	s.emit(Event{Event: eventLeft, Request: q.ID, Lease: t.id})
	lost := t.cause()
	// The work may have been cancelled; the release is not.
	err = s.release(context.WithoutCancel(ctx), t)
	a := failure(errors.Join(lost, worked, err))
	if errors.Is(err, lockspec.ErrNotHeld) || lost != nil {
		a.Outcome, a.Effect = lockspec.Lost, ""
	}
	a.Token = t.token()
	return a
}

// shutdown ends what is open, releases what is held if it is asked to, and
// makes Serve return after its reply.
func (s *server) shutdown(q *Request) answer {
	s.stop()
	s.drain(q.ID)
	a := answer{last: true}
	if q.Release {
		a.Reply = failure(s.releaseAll()).Reply
	}
	return a
}

// drain waits for the replies to all other requests.
func (s *server) drain(but int64) {
	bound := time.NewTimer(2 * callBound)
	defer bound.Stop()
	s.mu.Lock()
	open := slices.Collect(maps.Values(s.requests))
	s.mu.Unlock()
	for _, r := range open {
		if r.ID == but {
			continue
		}
		select {
		case <-r.done:
		case <-bound.C:
			return
		}
	}
}
