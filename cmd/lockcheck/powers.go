package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference/memory"
)

// embedded is the harness of a target behind an embedded server: nodes are
// processes, and the server's admin port gives every power over the service.
// Only servers that this program started are reached this way.
type embedded struct {
	*contract.Processes
	admin   memory.Admin
	monitor memory.Monitor
}

func newEmbedded(p *contract.Processes, admin string) embedded {
	return embedded{p, memory.Admin{Addr: admin}, memory.NewMonitor(admin)}
}

var _ interface {
	contract.TrafficCounter
	contract.Interferer
	contract.Evicter
	contract.Restarter
	contract.Stopper
	contract.Inspector
	contract.Pinger
} = embedded{}

// Ping implements contract.Pinger. The admin port answers whatever was put in
// the way of the data port.
func (s embedded) Ping(ctx context.Context) error { return s.monitor.Ping(ctx) }

// Close ends the nodes.
func (s embedded) Close() error {
	return errors.Join(s.Processes.Close(), s.monitor.Close())
}

// Requests implements contract.TrafficCounter.
func (s embedded) Requests(ctx context.Context, op, key string) (int, error) {
	return s.admin.Count(ctx, memory.Match{Op: op, Key: key})
}

// Interfere implements contract.Interferer.
func (s embedded) Interfere(ctx context.Context, what contract.Interference, op, key string, times int) (contract.Struck, error) {
	id, err := s.admin.Inject(ctx, memory.Fault(what), memory.Match{Op: op, Key: key}, times)
	return struck{s.admin, id}, err
}

// struck is an interference that the admin port knows by its number.
type struck struct {
	admin memory.Admin
	id    int64
}

// Await implements contract.Struck; it takes no longer than awaitLimit.
func (s struck) Await(ctx context.Context) error {
	limit := awaitLimit
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end))
	}
	return s.admin.Await(ctx, s.id, limit)
}

const awaitLimit = 30 * time.Second

// Lift implements contract.Struck.
func (s struck) Lift(ctx context.Context) error {
	err := s.admin.Lift(ctx, s.id)
	if errors.Is(err, lockspec.ErrNotHeld) {
		return nil // it was lifted before
	}
	return err
}

// Evict implements contract.Evicter.
func (s embedded) Evict(ctx context.Context, key string) error { return s.admin.Evict(ctx, key) }

// Restart implements contract.Restarter.
func (s embedded) Restart(ctx context.Context) error { return s.admin.Restart(ctx) }

// Stop implements contract.Stopper.
func (s embedded) Stop(ctx context.Context) error { return s.admin.Stall(ctx) }

// Continue implements contract.Stopper.
func (s embedded) Continue(ctx context.Context) error { return s.admin.Resume(ctx) }

// Inspect implements contract.Inspector.
func (s embedded) Inspect(ctx context.Context, key string) ([]contract.Holder, error) {
	states, err := s.admin.Inspect(ctx, key)
	return holders(states), err
}

// Seed implements contract.Inspector.
func (s embedded) Seed(ctx context.Context, key, owner string, lease time.Duration) error {
	_, err := s.admin.Seed(ctx, key, owner, lease)
	return err
}

func holders(states []memory.State) []contract.Holder {
	var all []contract.Holder
	for _, s := range states {
		all = append(all, contract.Holder{Owner: s.Owner, Token: s.Token})
	}
	return all
}

// The store in this process can be reached into as well; there are no
// connections to hold up or to break.
var _ interface {
	contract.TrafficCounter
	contract.Evicter
	contract.Restarter
	contract.Inspector
} = inside{}

// Requests implements contract.TrafficCounter.
func (h inside) Requests(_ context.Context, op, key string) (int, error) {
	return h.asked.of(op, key), nil
}

// Evict implements contract.Evicter.
func (h inside) Evict(_ context.Context, key string) error {
	if !h.store.Delete(key) {
		return fmt.Errorf("%w: evict: nobody holds the key", lockspec.ErrNotHeld)
	}
	return nil
}

// Restart implements contract.Restarter.
func (h inside) Restart(context.Context) error {
	h.store.Restart()
	return nil
}

// Inspect implements contract.Inspector.
func (h inside) Inspect(_ context.Context, key string) ([]contract.Holder, error) {
	return holders(h.store.Inspect(key)), nil
}

// Seed implements contract.Inspector.
func (h inside) Seed(_ context.Context, key, owner string, lease time.Duration) error {
	h.store.Delete(key)
	_, err := h.store.Acquire(memory.Request{Key: key, Owner: owner, Lease: lease})
	return err
}
