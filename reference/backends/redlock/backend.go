package redlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/redis"
)

// Options are the settings of a way to the servers. The zero value of each
// field stands for the default that its comment names.
type Options struct {
	// Server is how each server is reached. Fencing, class and waiting for
	// replicas have no meaning here.
	Server redis.Options
	// ServerTimeout bounds what one server may take for one answer; default: a
	// quarter of the lease, and no less than 200 ms. What it takes is taken from
	// the lease, but only where a quorum has to wait for it.
	ServerTimeout time.Duration

	_ struct{}
}

// Backend is the way to the servers. It is a [reference.Backend].
type Backend struct {
	opts    Options
	servers []*redis.Backend
	working sync.WaitGroup

	mu    sync.Mutex
	votes map[string]*voter // by the owner that won
}

var _ reference.Backend = (*Backend)(nil)

// New is a way to the servers at the addresses, host:port. Nothing is dialled
// yet.
func New(addrs []string, opts *Options) (*Backend, error) {
	b := &Backend{votes: map[string]*voter{}}
	if opts != nil {
		b.opts = *opts
	}
	if err := b.validate(addrs); err != nil {
		return nil, err
	}
	if b.opts.Server.Lease == 0 {
		b.opts.Server.Lease = redis.DefaultLease
	}
	o := b.opts.Server
	o.Unfenced = true
	if o.PoolSize == 0 {
		o.PoolSize = poolSize
	}
	for _, addr := range addrs {
		s, err := redis.New(addr, &o)
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		b.servers = append(b.servers, s)
	}
	return b, nil
}

// poolSize is the default of connections to each server. A burst of tries waits
// less for a connection that is there than for many that are made at once.
const poolSize = 8

func (b *Backend) validate(addrs []string) error {
	different := slices.Compact(slices.Sorted(slices.Values(addrs)))
	switch {
	case len(addrs) < 3:
		return fmt.Errorf("%w: %d servers; of fewer than 3 none may fail", lockspec.ErrConfig, len(addrs))
	case len(different) < len(addrs):
		return fmt.Errorf("%w: one server is named twice, and would vote twice", lockspec.ErrConfig)
	case b.opts.ServerTimeout < 0:
		return fmt.Errorf("%w: server timeout %v is negative", lockspec.ErrConfig, b.opts.ServerTimeout)
	case b.opts.Server.Wait != 0:
		return fmt.Errorf("%w: waiting for replicas of independent servers", lockspec.ErrUnsupported)
	}
	return nil
}

// quorum is more than half.
func (b *Backend) quorum() int { return len(b.servers)/2 + 1 }

// drift is the part of a lease that is given up because the servers' clocks do
// not run alike: 1 %, and 2 ms for the precision with which keys expire.
func drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// asked is the lease that leaves the promised one when drift is taken off.
func asked(promised time.Duration) time.Duration {
	return (promised+2*time.Millisecond)*100/99 + time.Millisecond
}

// Describe implements reference.Backend. Failover is no hazard of independent
// servers.
func (b *Backend) Describe() lockspec.Description {
	return lockspec.Description{
		Name: fmt.Sprintf("redlock of %d", len(b.servers)), Class: lockspec.ReplicatedLease,
		Hazards: []lockspec.Hazard{lockspec.Pause, lockspec.Suspend, lockspec.ClientClock, lockspec.ServerClock,
			lockspec.Restart, lockspec.Evict, lockspec.Partition},
		Features: []lockspec.Feature{lockspec.OwnerChecked},
		Bounds: lockspec.Bounds{LeaseMin: 100 * time.Millisecond, LeaseMax: time.Hour,
			Takeover: 100*time.Millisecond + drift(b.opts.Server.Lease)},
	}
}

// Timing implements reference.Backend.
func (b *Backend) Timing() reference.Timing { return reference.Expiring(b.opts.Server.Lease) }

// Close implements reference.Backend.
func (b *Backend) Close() error {
	b.working.Wait()
	var errs []error
	for _, s := range b.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Attempt implements reference.Backend. Each try votes under a name of its own,
// so that a vote of a failed try that is given back late is never the next
// try's. An owner that won keeps its name and is granted the key again.
func (b *Backend) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	v := b.vote(c.Owner)
	won := v != nil
	if !won {
		v = b.newVoter(c.Owner + "." + rand.Text())
	}
	vote := c
	vote.Owner = v.name
	failed := make(chan bool, len(b.servers)) // whether the votes are to be given back
	all := b.ask(v, c.Lease, func(ctx context.Context, s *redis.Backend) error {
		_, err := s.Attempt(ctx, vote)
		return err
	}, func(s *redis.Backend) {
		if <-failed {
			within, cancel := b.bounded(c.Lease)
			defer cancel()
			_ = s.Release(within, vote)
		}
	})
	t, err := b.count(ctx, all, func(t *tally) bool { return t.yes >= b.quorum() || t.decidedAgainst(b) })
	ok := err == nil && t.yes >= b.quorum()
	for range b.servers {
		failed <- !ok && !won
	}
	switch {
	case ok:
		b.remember(c.Owner, v)
		return reference.Grant{Lease: c.Lease - drift(c.Lease)}, nil
	case err != nil:
		return reference.Grant{}, err
	}
	return reference.Grant{}, t.refusal(b)
}

// Renew implements reference.Backend. Where most servers have renewed, those
// that have forgotten the vote are given it anew, if nobody else has theirs;
// but no such vote counts, for it revives what was lost.
func (b *Backend) Renew(ctx context.Context, c reference.Claim) error {
	v := b.vote(c.Owner)
	if v == nil {
		return lockspec.ErrNotHeld
	}
	vote := c
	vote.Owner, vote.Lease = v.name, asked(c.Lease)
	all := b.ask(v, c.Lease, func(ctx context.Context, s *redis.Backend) error {
		err := s.Renew(ctx, vote)
		if reason(err) == reference.Expired {
			return &forgotten{s, err}
		}
		return err
	}, nil)
	t, err := b.count(ctx, all, func(t *tally) bool { return t.yes >= b.quorum() || t.lost() > len(b.servers)-b.quorum() })
	switch {
	case err != nil:
		return err
	case t.yes >= b.quorum():
		b.plant(ctx, t.forgetful, vote)
		return nil
	}
	err = t.loss(b)
	if reason(err) == reference.TakenOver {
		b.forget(c.Owner) // nobody releases what is another's
	}
	return err
}

// plant votes again at servers that have forgotten.
func (b *Backend) plant(ctx context.Context, servers []*redis.Backend, vote reference.Claim) {
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(func() {
			within, cancel := b.boundedBy(ctx, vote.Lease)
			defer cancel()
			_, _ = s.Attempt(within, vote)
		})
	}
	all.Wait()
}

// Release implements reference.Backend. It goes to every server, also to those
// that did not answer before.
func (b *Backend) Release(ctx context.Context, c reference.Claim) error {
	v := b.vote(c.Owner)
	if v == nil {
		return lockspec.ErrNotHeld // every vote of a failed try is given back by the try
	}
	vote := c
	vote.Owner = v.name
	all := b.ask(v, c.Lease, func(ctx context.Context, s *redis.Backend) error { return s.Release(ctx, vote) }, nil)
	t, err := b.count(ctx, all, func(t *tally) bool { return t.yes >= b.quorum() || t.lost() > len(b.servers)-b.quorum() })
	switch {
	case err != nil:
		return err
	case t.yes >= b.quorum():
		b.forget(c.Owner)
		return nil
	}
	err = t.loss(b)
	if errors.Is(err, lockspec.ErrLost) {
		b.forget(c.Owner)
	}
	return err
}

// vote is who won for the owner; nil: nobody did.
func (b *Backend) vote(owner string) *voter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.votes[owner]
}

func (b *Backend) remember(owner string, v *voter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.votes[owner] = v
}

func (b *Backend) forget(owner string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.votes, owner)
}
