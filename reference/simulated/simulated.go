// Package simulated lets the engine run on the simulated services of a virtual
// world: it is what a backend of a real service is, for the messages of
// package explore.
package simulated

import (
	"context"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/chaos/explore"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// Target is a lock in a virtual world.
type Target struct {
	Name    string
	Means   string
	Harness explore.Harness
}

// Targets is the table of locks that can be explored.
func Targets() []Target {
	return []Target{
		{"lease", "one lease server", harness(explore.NewLeaseServer, leased{desc: leaseDescription()})},
		{"replicated", "a primary with an asynchronous replica", harness(explore.NewReplicated, leased{desc: replicatedDescription()})},
		{"consensus", "a majority that agrees", harness(explore.NewConsensus, leased{desc: consensusDescription()})},
		{"session", "a server that keeps a key while a session lives", harness(explore.NewSessions, sessions{})},
		{"quorum", "five independent servers", harness(explore.NewQuorum, quorum{})},
		{"memory", "the memory backend and its server, over connections of the world", harness(newMemoryServer, wired{})},
	}
}

// Find is the target of the name.
func Find(name string) (Target, error) {
	for _, t := range Targets() {
		if t.Name == name {
			return t, nil
		}
	}
	return Target{}, fmt.Errorf("%w: nothing simulated is named %q", lockspec.ErrConfig, name)
}

// protocol makes a backend for a node of a world.
type protocol interface {
	on(n *explore.Node) reference.Backend
}

func harness(service func(*explore.World) explore.Service, p protocol) explore.Harness {
	return explore.Harness{Service: service,
		Open: func(n *explore.Node) (lockspec.Client, error) {
			e, err := engine(n, p.on(n), 0)
			if err != nil {
				return nil, err
			}
			return e.Client(), nil
		},
		Describe: func(lease time.Duration) lockspec.Description {
			b := p.on(nil)
			if !b.Timing().Expires() {
				lease = 0
			}
			e, err := reference.New(b, options(lease))
			if err != nil {
				return lockspec.Description{Name: err.Error()}
			}
			return e.Client().(lockspec.Describer).Describe()
		}}
}

func options(lease time.Duration) *reference.Options {
	return &reference.Options{Lease: lease, MaxRetryDelay: 400 * time.Millisecond}
}

func engine(n *explore.Node, b reference.Backend, lease time.Duration) (*reference.Engine, error) {
	o := options(lease)
	o.Clock, o.Rand = n.Clock(), n.Rand()
	return reference.New(b, o)
}

// leased speaks to one server that leases.
type leased struct {
	n    *explore.Node
	desc lockspec.Description
}

func (b leased) on(n *explore.Node) reference.Backend { return leased{n, b.desc} }

func (leased) Timing() reference.Timing         { return reference.Expiring(time.Second) }
func (leased) Close() error                     { return nil }
func (leased) Prompt()                          {}
func (b leased) Describe() lockspec.Description { return b.desc }

func describe(name string, class lockspec.Class, hazards ...lockspec.Hazard) lockspec.Description {
	return lockspec.Description{Name: name, Class: class, Hazards: hazards,
		Features: []lockspec.Feature{lockspec.Fencing, lockspec.OwnerChecked, lockspec.StrictTry},
		Bounds:   lockspec.Bounds{LeaseMin: time.Millisecond, LeaseMax: time.Hour, Takeover: 100 * time.Millisecond}}
}

// Only what an engine cannot help is declared: a partition it can.
func leaseDescription() lockspec.Description {
	return describe("simulated lease server", lockspec.Leased, lockspec.Pause, lockspec.Suspend, lockspec.ClientClock,
		lockspec.ServerClock, lockspec.Restart, lockspec.Evict)
}

func replicatedDescription() lockspec.Description {
	return describe("simulated replicated server", lockspec.ReplicatedLease, lockspec.Pause, lockspec.Suspend, lockspec.ClientClock,
		lockspec.Failover, lockspec.Evict)
}

func consensusDescription() lockspec.Description {
	return describe("simulated consensus", lockspec.Consensus, lockspec.Pause, lockspec.Suspend, lockspec.ClientClock)
}

func (b leased) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	r, err := b.n.Call(ctx, 0, explore.Request{Op: explore.Acquire, Key: c.Key, Owner: c.Owner, Lease: c.Lease})
	return reference.Grant{Token: r.Token, Lease: r.Lease}, problem(r, err)
}

func (b leased) Renew(ctx context.Context, c reference.Claim) error {
	r, err := b.n.Call(ctx, 0, explore.Request{Op: explore.Renew, Key: c.Key, Owner: c.Owner, Lease: c.Lease})
	return problem(r, err)
}

func (b leased) Release(ctx context.Context, c reference.Claim) error {
	r, err := b.n.Call(ctx, 0, explore.Request{Op: explore.Release, Key: c.Key, Owner: c.Owner})
	return problem(r, err)
}

// problem is what a reply means to the engine.
func problem(r explore.Reply, err error) error {
	switch {
	case err == explore.ErrNotSent:
		return reference.ErrNotSent
	case err != nil:
		return err
	case r.Outcome == lockspec.Busy:
		return lockspec.ErrBusy
	case r.Outcome == lockspec.NotHeld && r.Taken:
		return &reference.LostError{Reason: reference.TakenOver}
	case r.Outcome == lockspec.NotHeld:
		return &reference.LostError{Reason: reference.Expired}
	}
	return nil
}
