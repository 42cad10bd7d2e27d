package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	etcd "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
)

const defaultLease = 60 * time.Second // a Session's own

// service is the one client of a node.
type service struct {
	etcd   *etcd.Client
	shared bool
}

// opener makes a client, which connects when it is first used.
func opener(shared bool) driver.Opener {
	return func(_ context.Context, at driver.Target) (driver.Lock, error) {
		if len(at.Endpoints) == 0 {
			return nil, fmt.Errorf("%w: no endpoint; give --endpoint HOST:PORT, once for each member", lockspec.ErrConfig)
		}
		c, err := etcd.New(etcd.Config{Endpoints: at.Endpoints})
		if err != nil {
			return nil, fmt.Errorf("%w: %v", lockspec.ErrConfig, err)
		}
		return &service{c, shared}, nil
	}
}

// Describe claims what the package's documentation says and its code does.
func (s *service) Describe() lockspec.Description {
	d := lockspec.Description{
		Name:  "etcd concurrency " + etcdVersion,
		Class: lockspec.Consensus,
		Features: []lockspec.Feature{
			lockspec.Wait, lockspec.FIFO, lockspec.AutoRenew, lockspec.Fencing, lockspec.LossSignal, lockspec.HoldCheck,
			lockspec.Cancel, lockspec.StrictTry,
		},
		Hazards: []lockspec.Hazard{lockspec.Pause, lockspec.Suspend, lockspec.ClientClock},
		Bounds: lockspec.Bounds{
			Takeover: time.Second, // the server looks for leases that have run out twice a second
			Loss:     1500 * time.Millisecond,
			Cancel:   500 * time.Millisecond,
			Poll:     250 * time.Millisecond, // waiters watch
		},
	}
	if s.shared {
		d.Name += ", shared Session"
		d.Features = append(d.Features, lockspec.SessionLease)
	}
	return d
}

// Client has a Session only where all its tenures share one.
func (s *service) Client(string) (lockspec.Client, error) { return &client{service: s}, nil }

// Ping reads, which a leader without a majority does not answer.
func (s *service) Ping(ctx context.Context) error {
	_, err := s.etcd.Get(ctx, "ping")
	return unavailable(ctx, err)
}

func (s *service) Close() error { return s.etcd.Close() }

type client struct {
	*service

	mu   sync.Mutex
	mine *concurrency.Session
	ttl  time.Duration
}

// Close gives up a shared Session, and with it all that it holds.
func (c *client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mine == nil {
		return nil
	}
	return c.mine.Close()
}

// Acquire makes a Session for each tenure, unless they are to share one: to
// etcd, all that has one Session is one owner.
func (c *client) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	sent, _ := fakeclock.Monotonic()
	open, end := c.session, (*concurrency.Session).Close
	if c.shared {
		open, end = c.same, func(*concurrency.Session) error { return nil }
	}
	s, ttl, err := open(ctx, r.Lease)
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(s, r.Key)
	if err := lock(ctx, m, r.Wait); err != nil {
		return nil, refusal(ctx, err, end(s))
	}
	l := &lease{
		etcd: c.etcd, session: s, end: end, mutex: m, owner: m.IsOwner(), ttl: ttl, sent: lockspec.Stamp(sent),
		lost: make(chan struct{}),
	}
	go l.watch()
	return l, nil
}

// same is the Session of this client, while it lasts.
func (c *client) same(ctx context.Context, ask time.Duration) (*concurrency.Session, time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mine != nil {
		select {
		case <-c.mine.Done():
		default:
			return c.mine, c.ttl, nil
		}
	}
	var err error
	c.mine, c.ttl, err = c.session(ctx, ask)
	return c.mine, c.ttl, err
}

// session asks for the lease itself: NewSession would wait for etcd without
// limit, and keep what etcd has granted to itself.
func (c *client) session(ctx context.Context, ask time.Duration) (*concurrency.Session, time.Duration, error) {
	if ask <= 0 {
		ask = defaultLease
	}
	seconds := int64((ask + time.Second - 1) / time.Second)
	granted, err := c.etcd.Grant(ctx, seconds)
	if err != nil {
		return nil, 0, unavailable(ctx, err)
	}
	s, err := concurrency.NewSession(c.etcd, concurrency.WithLease(granted.ID), concurrency.WithTTL(int(granted.TTL)))
	if err != nil {
		return nil, 0, unavailable(ctx, err)
	}
	return s, time.Duration(granted.TTL) * time.Second, nil
}

// lock is one attempt, or a wait. Lock knows no limit but its context's.
func lock(ctx context.Context, m *concurrency.Mutex, wait time.Duration) error {
	switch {
	case wait == 0:
		return m.TryLock(ctx)
	case wait > 0:
		limited, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		ctx = limited
	}
	return m.Lock(ctx)
}

// lease is one tenure.
type lease struct {
	etcd    *etcd.Client
	session *concurrency.Session
	end     func(*concurrency.Session) error
	mutex   *concurrency.Mutex
	owner   etcd.Cmp // before a release makes the Mutex forget its key
	ttl     time.Duration
	sent    lockspec.Stamp

	releasing sync.Mutex // a Mutex is not for concurrent use
	released  atomic.Bool
	lost      chan struct{}
}

func (l *lease) Granted() time.Duration { return l.ttl }
func (l *lease) Sent() lockspec.Stamp   { return l.sent }

// Token is the revision at which the lock was acquired. All changes of etcd are
// in one order, and the key of the holder before was deleted by then.
func (l *lease) Token() int64 { return l.mutex.Header().Revision }

func (l *lease) Lost() <-chan struct{} { return l.lost }

func (l *lease) Cause() error {
	select {
	case <-l.lost:
		return fmt.Errorf("%w: the session is done", lockspec.ErrLost)
	default:
		return nil
	}
}

// watch raises the loss when the Session is done without having been closed.
func (l *lease) watch() {
	<-l.session.Done()
	if !l.released.Load() {
		close(l.lost)
	}
}

// Held asks etcd, in a transaction that does nothing, if the key is still ours.
func (l *lease) Held(ctx context.Context) error {
	r, err := l.etcd.Txn(ctx).If(l.owner).Commit()
	switch {
	case err != nil:
		return unavailable(ctx, err)
	case !r.Succeeded:
		return fmt.Errorf("%w: the key is gone", lockspec.ErrNotHeld)
	}
	return nil
}

// Release unlocks, and closes a Session that nothing else uses.
func (l *lease) Release(ctx context.Context) error {
	if err := l.Cause(); err != nil {
		return err
	}
	l.releasing.Lock()
	defer l.releasing.Unlock()
	l.released.Store(true)
	err := l.mutex.Unlock(ctx)
	if errors.Is(err, concurrency.ErrLockReleased) {
		return fmt.Errorf("%w: %v", lockspec.ErrNotHeld, err)
	}
	return unavailable(ctx, errors.Join(err, l.end(l.session)))
}
