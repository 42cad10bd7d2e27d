package simulated

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/chaos/explore"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// quorum holds a key where most servers granted it. Each try is an owner of its
// own, so that a vote that is given back late is never the next try's.
type quorum struct {
	n *explore.Node

	mu    *sync.Mutex
	tries map[string]int // by owner
}

const (
	servers  = explore.QuorumServers
	majority = servers/2 + 1
)

func (quorum) on(n *explore.Node) reference.Backend {
	return quorum{n, new(sync.Mutex), map[string]int{}}
}

func (quorum) Timing() reference.Timing { return reference.Expiring(time.Second) }
func (quorum) Close() error             { return nil }
func (quorum) Prompt()                  {}

func (quorum) Describe() lockspec.Description {
	d := describe("simulated quorum", lockspec.ReplicatedLease, lockspec.Pause, lockspec.Suspend, lockspec.ClientClock,
		lockspec.ServerClock, lockspec.Restart)
	d.Features = []lockspec.Feature{lockspec.OwnerChecked}
	return d
}

// votes is what the servers answered.
type votes struct{ yes, busy, gone, unsure int }

// ask asks every server and waits for as many answers as decide.
func (b quorum) ask(ctx context.Context, op explore.Op, c reference.Claim, try int) votes {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := explore.Request{Op: op, Key: c.Key, Owner: fmt.Sprintf("%s#%d", c.Owner, try), Lease: c.Lease}
	answers := make(chan error, servers)
	for s := range servers {
		go func() {
			r, err := b.n.Call(ctx, s, q)
			answers <- problem(r, err)
		}()
	}
	var v votes
	for n := 0; n < servers && !v.decided(op); n++ {
		v.count(<-answers)
	}
	return v
}

func (v *votes) count(err error) {
	switch o := lockspec.OutcomeOf(err); {
	case err == nil:
		v.yes++
	case o == lockspec.Busy:
		v.busy++
	case o == lockspec.Lost:
		v.gone++
	default:
		v.unsure++
	}
}

// decided: a release goes to all, for votes that were not counted too.
func (v *votes) decided(op explore.Op) bool {
	return op != explore.Release && (v.yes >= majority || v.busy+v.gone+v.unsure > servers-majority)
}

func (b quorum) try(owner string, next bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if next {
		b.tries[owner]++
	}
	return b.tries[owner]
}

// Attempt implements reference.Backend. The votes of a try that failed are given
// back behind its back.
func (b quorum) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	try := b.try(c.Owner, true)
	v := b.ask(ctx, explore.Acquire, c, try)
	if v.yes >= majority {
		return reference.Grant{Lease: c.Lease}, nil
	}
	b.ask(ctx, explore.Release, c, try)
	if v.busy > 0 && v.unsure == 0 {
		return reference.Grant{}, lockspec.ErrBusy
	}
	return reference.Grant{}, lockspec.ErrUnavailable
}

// Renew implements reference.Backend.
func (b quorum) Renew(ctx context.Context, c reference.Claim) error {
	v := b.ask(ctx, explore.Renew, c, b.try(c.Owner, false))
	switch {
	case v.yes >= majority:
		return nil
	case v.gone > servers-majority:
		return &reference.LostError{Reason: reference.Expired}
	}
	return lockspec.ErrUnavailable
}

// Release implements reference.Backend.
func (b quorum) Release(ctx context.Context, c reference.Claim) error {
	v := b.ask(ctx, explore.Release, c, b.try(c.Owner, false))
	switch {
	case v.yes >= majority:
		return nil
	case v.gone > servers-majority:
		return &reference.LostError{Reason: reference.Expired}
	}
	return lockspec.ErrUnavailable
}
