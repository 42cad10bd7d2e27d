package chaos

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// Fault is one kind of fault.
type Fault struct {
	Name    string
	Hazard  lockspec.Hazard // the hazard word that it maps to; empty: none, it excuses nothing
	Strikes Site
	Means   string
	Needs   string // of the harness, in words that complete "harness cannot …"

	// As is its name in a history, where the checker knows it as a kind of
	// another; empty: its own.
	As string

	offered func(contract.Harness) bool
	strike  striker
	prepare preparer // in its place, where there is something to be made ready
}

// Site is what a fault strikes.
type Site string

// The sites.
const (
	OnNode        Site = "node"
	OnLink        Site = "link"         // of a node to the service
	OnClock       Site = "clock"        // of a node
	OnService     Site = "service"      // every client
	OnServerClock Site = "server-clock" // by which leases are measured
	OnKey         Site = "key"
)

// target is what a history says that the step strikes.
func (s Site) target(step Step, key string) string {
	switch s {
	case OnNode:
		return step.Node
	case OnLink:
		return "link:" + step.Node
	case OnClock:
		return "clock:" + step.Node
	case OnServerClock:
		return "clock:service"
	case OnKey:
		return "key:" + key
	}
	return "service"
}

// healer undoes a fault and confirms it. It is called once.
type healer = func(context.Context) error

// striker applies a fault in the real world, and returns once it has landed.
// It may return a healer with an error: something was done all the same.
type striker func(ctx context.Context, h contract.Harness, s Step, key string) (healer, error)

// preparer makes ready what takes time, or must be done before the grant.
type preparer func(ctx context.Context, h contract.Harness, s Step, key string) (*Prepared, error)

// faults is the table of faults.
var faults = slices.Concat(nodeFaults, clockFaults, linkFaults, exchangeFaults, serviceFaults, keyFaults, resourceFaults)

// Faults is the table of faults.
func Faults() []Fault { return append([]Fault(nil), faults...) }

// FaultNamed is a row of the table of faults. It panics where there is none.
func FaultNamed(name string) *Fault { return fault(name) }

func fault(name string) *Fault {
	for i := range faults {
		if faults[i].Name == name {
			return &faults[i]
		}
	}
	panic("no fault is named " + name)
}

func (f *Fault) recordedAs() string {
	if f.As != "" {
		return f.As
	}
	return f.Name
}

// offers says whether a harness has a power.
func offers[T any](h contract.Harness) bool {
	_, ok := h.(T)
	return ok
}

// healed is the healer of what is over as soon as it is done.
func healed(context.Context) error { return nil }

// power is a power of the harness. What offers it was asked before.
func power[T any](h contract.Harness) (T, error) {
	p, ok := h.(T)
	if !ok {
		return p, fmt.Errorf("%w: harness has no %T", lockspec.ErrUnsupported, *new(T))
	}
	return p, nil
}

// at is the striker of a fault that a power applies.
func at[P any](do func(ctx context.Context, p P, s Step, key string) (healer, error)) striker {
	return func(ctx context.Context, h contract.Harness, s Step, key string) (healer, error) {
		p, err := power[P](h)
		if err != nil {
			return nil, err
		}
		return do(ctx, p, s, key)
	}
}

// instant is the striker of a fault that is over as soon as it is done.
func instant[P any](do func(ctx context.Context, p P, s Step, key string) error) striker {
	return at(func(ctx context.Context, p P, s Step, key string) (healer, error) {
		return healed, do(ctx, p, s, key)
	})
}
