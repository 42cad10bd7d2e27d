package chaos

import (
	"context"

	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// Breaker is the power to break a lock as an operator does: a lease is broken, a
// key deleted, a session terminated.
type Breaker interface {
	Break(ctx context.Context, key string) error
}

// Persister is the power to make a held key never expire, as a mistake of an
// operator's does.
type Persister interface {
	Persist(ctx context.Context, key string) error
}

// Scribbler is the power to write into what a lock keeps of a key, as a stranger
// does who knows nothing of locks. Healing removes it.
type Scribbler interface {
	Scribble(ctx context.Context, key string) (heal func(context.Context) error, err error)
}

// keyFaults strike the key that is contended.
var keyFaults = []Fault{
	{Name: "break", Strikes: OnKey, Needs: "break a lock as an operator does", Means: "an operator breaks the lease, deletes the key or ends the session of the holder",
		offered: func(h contract.Harness) bool { return offers[Breaker](h) || offers[contract.Evicter](h) }, strike: breakLock},
	{Name: "persist", Strikes: OnKey, Needs: "make a key never expire", Means: "an operator makes the held key one that never expires", offered: offers[Persister],
		strike: instant(func(ctx context.Context, p Persister, _ Step, key string) error { return p.Persist(ctx, key) })},
	{Name: "scribble", As: "break", Strikes: OnKey, Needs: "write into a lock's storage", Means: "a stranger puts something else where the lock was", offered: offers[Scribbler],
		strike: at(func(ctx context.Context, p Scribbler, _ Step, key string) (healer, error) {
			return p.Scribble(ctx, key)
		})},
}

// breakLock evicts where there is nothing more like an operator.
func breakLock(ctx context.Context, h contract.Harness, _ Step, key string) (healer, error) {
	if p, ok := h.(Breaker); ok {
		return healed, p.Break(ctx, key)
	}
	p, err := power[contract.Evicter](h)
	if err != nil {
		return nil, err
	}
	return healed, p.Evict(ctx, key)
}

// resourceFaults strike the way to what the lock protects. The scenario itself
// performs them.
var resourceFaults = []Fault{
	{Name: "delayed-write", Strikes: OnKey, Means: "a write that was decided on in time reaches the resource when the lease is long over",
		offered: func(contract.Harness) bool { return true },
		strike:  func(context.Context, contract.Harness, Step, string) (healer, error) { return healed, nil }},
}
