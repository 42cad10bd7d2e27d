package explore

import (
	"context"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// A world without a plan is struck by the case that runs in it: it has every
// power over the service that its servers offer, and performs the faults of
// nodes for the scenarios.
var _ interface {
	chaos.World
	contract.Timekeeper
	contract.TrafficCounter
	contract.Interferer
	contract.Evicter
	contract.Restarter
	contract.Stopper
	contract.Inspector
} = (*calm)(nil)

// Holder is who holds a key, for a service that can tell.
type Holder = contract.Holder

// Ledger is the power of a Service to show who holds a key, and to be given a
// key that a stranger holds. The world's mutex is held.
type Ledger interface {
	Holders(key string) []contract.Holder
	Plant(key, owner string, lease time.Duration)
}

// Now implements contract.Timekeeper.
func (c *calm) Now() int64 { return int64(c.w.now()) + 1 }

// Can implements chaos.World: what a world of schedules does to a node it does
// here too.
func (c *calm) Can(f chaos.Fault) error {
	if own := nodeFault(f.Name); own == nil {
		return fmt.Errorf("%w: the virtual world has no fault %s", lockspec.ErrUnsupported, f.Name)
	}
	if c.w.service.Class() == lockspec.Session && f.Name != "kill" {
		return fmt.Errorf("%w: %s of a session's node, which the service may take for its end", lockspec.ErrUnsupported, f.Name)
	}
	return nil
}

// nodeFault is the fault of that name if it strikes a node.
func nodeFault(name string) *Fault {
	for i := range worldFaults {
		if f := &worldFaults[i]; f.Name == name && (name == "pause" || name == "suspend" || name == "kill") {
			return f
		}
	}
	return nil
}

// Strike implements chaos.World.
func (c *calm) Strike(_ context.Context, f chaos.Fault, node string) (func(context.Context) error, error) {
	if err := c.Can(f); err != nil {
		return nil, err
	}
	n := c.w.Node(node)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	heal := nodeFault(f.Name).apply(&step{node: node}, c.w, n)
	return func(context.Context) error {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		if heal != nil && !c.w.ended {
			heal()
		}
		return nil
	}, nil
}

// traffic is what requests are counted by.
type traffic struct {
	op  Op
	key string
}

// Requests implements contract.TrafficCounter: what the server has seen that
// has seen most, because a lock that asks several asks each of them.
func (c *calm) Requests(_ context.Context, op, key string) (most int, _ error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, seen := range c.w.traffic {
		sum := 0
		for t, n := range seen {
			if (op == "" || op == string(t.op) || op == string(Release) && t.op == Delete) && (key == "" || key == t.key) {
				sum += n
			}
		}
		most = max(most, sum)
	}
	return most, nil
}

func (c *calm) strikeService(f Strike) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, name := range c.w.service.Faults() {
		if name == f.Fault {
			for f.Server = range c.w.service.Servers() {
				c.w.service.Strike(f)
			}
			return nil
		}
	}
	return fmt.Errorf("%w: the simulated service suffers no %s", lockspec.ErrUnsupported, f.Fault)
}

// Evict implements contract.Evicter.
func (c *calm) Evict(_ context.Context, key string) error {
	return c.strikeService(Strike{Fault: "evict", Key: key})
}

// Restart implements contract.Restarter.
func (c *calm) Restart(context.Context) error { return c.strikeService(Strike{Fault: "restart"}) }

// Stop implements contract.Stopper.
func (c *calm) Stop(context.Context) error {
	c.eachDoor((*gate).shut)
	return nil
}

// Continue implements contract.Stopper.
func (c *calm) Continue(context.Context) error {
	c.eachDoor((*gate).open)
	return nil
}

func (c *calm) eachDoor(do func(*gate)) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for _, d := range c.w.doors {
		do(d)
	}
}

// Inspect implements contract.Inspector.
func (c *calm) Inspect(_ context.Context, key string) (all []contract.Holder, err error) {
	err = c.ledger(func(l Ledger) { all = l.Holders(key) })
	return all, err
}

// Seed implements contract.Inspector.
func (c *calm) Seed(_ context.Context, key, owner string, lease time.Duration) error {
	return c.ledger(func(l Ledger) { l.Plant(key, owner, lease) })
}

func (c *calm) ledger(look func(Ledger)) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	l, ok := c.w.service.(Ledger)
	if !ok {
		return fmt.Errorf("%w: the simulated service has no ledger", lockspec.ErrUnsupported)
	}
	look(l)
	return nil
}
