package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
)

const (
	defaultLease = 8 * time.Second // redsync's own
	retryEvery   = 100 * time.Millisecond
	drift        = 0.01 // what redsync takes off a lease, by default
)

// service is the servers of a node, and the one Redsync of its process.
type service struct {
	servers []*goredis.Client
	sync    *redsync.Redsync
}

// open makes the clients as the README of redsync does, with the defaults of
// go-redis. They connect when they are first used.
func open(_ context.Context, at driver.Target) (driver.Lock, error) {
	if len(at.Endpoints) == 0 {
		return nil, fmt.Errorf("%w: no endpoint; give --endpoint HOST:PORT, once for each Redis", lockspec.ErrConfig)
	}
	s := &service{}
	var pools []redis.Pool
	for _, addr := range at.Endpoints {
		c := goredis.NewClient(&goredis.Options{Addr: addr})
		s.servers = append(s.servers, c)
		pools = append(pools, pool.NewPool(c))
	}
	s.sync = redsync.New(pools...)
	return s, nil
}

// Describe claims what redsync's documentation says and its code does.
func (s *service) Describe() lockspec.Description {
	d := lockspec.Description{
		Name:  "redsync 4.18.1 (go-redis " + goredis.Version() + ")",
		Class: lockspec.Leased,
		Features: []lockspec.Feature{
			lockspec.Wait, lockspec.Renew, lockspec.HoldCheck, lockspec.OwnerChecked, lockspec.Cancel,
		},
		Hazards: []lockspec.Hazard{
			lockspec.Pause, lockspec.Suspend, lockspec.Partition, lockspec.ClientClock, lockspec.ServerClock,
			lockspec.Restart, lockspec.Evict,
		},
		Bounds: lockspec.Bounds{
			Takeover: 100 * time.Millisecond, // the 1 % of the lease that it does not promise, and Redis' own clock
			Cancel:   200 * time.Millisecond, // the attempt that is under way goes on to its end
			Poll:     retryEvery + 150*time.Millisecond,
		},
	}
	if len(s.servers) == 1 {
		// One SET NX decides. On several servers an attempt may be split, so that
		// nobody gets a majority.
		d.Features = append(d.Features, lockspec.StrictTry)
		return d
	}
	d.Name += fmt.Sprintf(", majority of %d", len(s.servers))
	d.Class = lockspec.ReplicatedLease
	return d
}

// Client needs nothing of its own: what redsync tells owners apart by is the
// random value of each Mutex.
func (s *service) Client(string) (lockspec.Client, error) { return client{s}, nil }

// Ping asks for a majority.
func (s *service) Ping(ctx context.Context) error {
	answers := make(chan error, len(s.servers))
	for _, c := range s.servers {
		go func() { answers <- c.Ping(ctx).Err() }()
	}
	var errs []error
	for range s.servers {
		if err := <-answers; err != nil {
			errs = append(errs, err)
		}
	}
	if 2*(len(s.servers)-len(errs)) > len(s.servers) {
		return nil
	}
	return fmt.Errorf("%w: %v", lockspec.ErrUnavailable, errors.Join(errs...))
}

func (s *service) Close() error {
	var errs []error
	for _, c := range s.servers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

type client struct{ *service }

func (client) Close() error { return nil }

// Acquire makes a Mutex for each tenure, as its value is that of one.
func (c client) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	expiry := r.Lease
	if expiry == 0 {
		expiry = defaultLease
	}
	tries, delay := attempts(r.Wait)
	m := c.sync.NewMutex(r.Key, redsync.WithExpiry(expiry), redsync.WithTries(tries), redsync.WithRetryDelay(delay))
	if err := m.LockContext(ctx); err != nil {
		return nil, refusal(ctx, err, r.Wait)
	}
	return &lease{mutex: m, granted: promised(expiry), sent: sent(m, expiry)}, nil
}

// attempts spells a wait as redsync has it: a number of tries, and the delay
// between them. The last try falls on the end of the wait, and its error is
// what tells a key that stayed held from servers that went away.
func attempts(wait time.Duration) (tries int, delay time.Duration) {
	switch {
	case wait < 0:
		return math.MaxInt, retryEvery
	case wait == 0:
		return 1, retryEvery
	}
	again := (wait + retryEvery - 1) / retryEvery
	return int(again) + 1, (wait + again - 1) / again
}

// promised is how long redsync itself counts on a lease, from its send.
func promised(expiry time.Duration) time.Duration {
	return expiry - time.Duration(drift*float64(expiry))
}

// sent is when the attempt that won was sent: redsync counts Until from there.
func sent(m *redsync.Mutex, expiry time.Duration) lockspec.Stamp {
	ns, ok := fakeclock.Monotonic()
	if !ok {
		return 0
	}
	return lockspec.Stamp(ns) - lockspec.Stamp(time.Since(m.Until().Add(-promised(expiry))))
}

// lease is one tenure.
type lease struct {
	mutex   *redsync.Mutex
	granted time.Duration
	sent    lockspec.Stamp
	renew   sync.Mutex // a Mutex is not for concurrent use
}

func (l *lease) Granted() time.Duration { return l.granted }
func (l *lease) Sent() lockspec.Stamp   { return l.sent }

// Renew extends by the expiry that the Mutex was made with: redsync takes no other.
func (l *lease) Renew(ctx context.Context, _ time.Duration) error {
	l.renew.Lock()
	defer l.renew.Unlock()
	ok, err := l.mutex.ExtendContext(ctx)
	return denial(ok, err)
}

// Held asks the servers, as redsync's deprecated ValidContext does. What it has
// instead, Until, is a moment that knows nothing of the servers.
func (l *lease) Held(ctx context.Context) error {
	ok, err := l.mutex.ValidContext(ctx) //lint:ignore SA1019 nothing else asks the servers
	return denial(ok, err)
}

func (l *lease) Release(ctx context.Context) error {
	ok, err := l.mutex.UnlockContext(ctx)
	return denial(ok, err)
}
