package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference/backends/redis"
)

// Faults are the powers over servers that were started for a run. What strikes
// the service strikes every server, because a minority is nobody's loss.
type Faults struct {
	servers []*redis.Faults
}

var _ interface {
	contract.TrafficCounter
	contract.Interferer
	contract.Evicter
	contract.Restarter
	contract.Stopper
	contract.Inspector
	contract.Emptier
	contract.Pinger
} = (*Faults)(nil)

// NewFaults puts a relay before each server. The options are those of the
// clients.
func NewFaults(servers []redis.Started, o *redis.Options) (*Faults, error) {
	f := &Faults{}
	own := redis.Options{}
	if o != nil {
		own = *o
	}
	own.Unfenced = true
	for _, s := range servers {
		one, err := redis.NewFaults(s, &own)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.servers = append(f.servers, one)
	}
	return f, nil
}

// Addrs is where clients reach the servers.
func (f *Faults) Addrs() (addrs []string) {
	for _, s := range f.servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Close ends the relays and their connections.
func (f *Faults) Close() error {
	return f.every(func(s *redis.Faults) error { return s.Close() })
}

// every does something to every server, one after the other.
func (f *Faults) every(do func(*redis.Faults) error) error {
	var errs []error
	for _, s := range f.servers {
		errs = append(errs, do(s))
	}
	return errors.Join(errs...)
}

// Requests implements contract.TrafficCounter. One request of the lock is one to
// each server, so what counts is where most arrived.
func (f *Faults) Requests(ctx context.Context, op, key string) (most int, err error) {
	for _, s := range f.servers {
		n, err := s.Requests(ctx, op, key)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}

// Interfere implements contract.Interferer.
func (f *Faults) Interfere(ctx context.Context, what contract.Interference, op, key string, times int) (contract.Struck, error) {
	var all struckAll
	for _, s := range f.servers {
		one, err := s.Interfere(ctx, what, op, key, times)
		if err != nil {
			return nil, errors.Join(err, all.Lift(ctx))
		}
		all = append(all, one)
	}
	return all, nil
}

// struckAll is an interference at every server.
type struckAll []contract.Struck

// Await implements contract.Struck.
func (all struckAll) Await(ctx context.Context) error {
	for _, s := range all {
		if err := s.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Lift implements contract.Struck.
func (all struckAll) Lift(ctx context.Context) error {
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Lift(ctx))
	}
	return errors.Join(errs...)
}

// Evict implements contract.Evicter. Where a minority has no vote, the key was
// held all the same.
func (f *Faults) Evict(ctx context.Context, key string) error {
	missing := 0
	err := f.every(func(s *redis.Faults) error {
		err := s.Evict(ctx, key)
		if errors.Is(err, lockspec.ErrNotHeld) {
			missing++
			return nil
		}
		return err
	})
	if err == nil && missing > len(f.servers)/2 {
		return fmt.Errorf("%w: evict: no quorum holds the key", lockspec.ErrNotHeld)
	}
	return err
}

// Restart implements contract.Restarter.
func (f *Faults) Restart(ctx context.Context) error {
	return f.every(func(s *redis.Faults) error { return s.Restart(ctx) })
}

// Stop implements contract.Stopper.
func (f *Faults) Stop(ctx context.Context) error {
	return f.every(func(s *redis.Faults) error { return s.Stop(ctx) })
}

// Continue implements contract.Stopper.
func (f *Faults) Continue(ctx context.Context) error {
	return f.every(func(s *redis.Faults) error { return s.Continue(ctx) })
}

// Inspect implements contract.Inspector: who has most votes holds the key.
func (f *Faults) Inspect(ctx context.Context, key string) ([]contract.Holder, error) {
	votes := map[contract.Holder]int{}
	for _, s := range f.servers {
		holders, err := s.Inspect(ctx, key)
		if err != nil {
			return nil, err
		}
		for _, h := range holders {
			if votes[h]++; votes[h] > len(f.servers)/2 {
				return []contract.Holder{h}, nil
			}
		}
	}
	return nil, nil
}

// Seed implements contract.Inspector.
func (f *Faults) Seed(ctx context.Context, key, owner string, lease time.Duration) error {
	return f.every(func(s *redis.Faults) error { return s.Seed(ctx, key, owner, lease) })
}

// Empty implements contract.Emptier.
func (f *Faults) Empty(ctx context.Context) error {
	return f.every(func(s *redis.Faults) error { return s.Empty(ctx) })
}

// Ping implements contract.Pinger: the slowest server counts.
func (f *Faults) Ping(ctx context.Context) error {
	return f.every(func(s *redis.Faults) error { return s.Ping(ctx) })
}
