package simulated

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/chaos/explore"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// sessions keeps one session for each claim, and probes it often enough to give
// it up before the server does.
type sessions struct{ n *explore.Node }

// probe: three without an answer are a lost session, and still less than the
// server bears.
const probe = explore.Silence / 4

func (sessions) on(n *explore.Node) reference.Backend { return sessions{n} }

func (sessions) Timing() reference.Timing { return reference.Session(probe) }
func (sessions) Close() error             { return nil }
func (sessions) Prompt()                  {}

func (sessions) Describe() lockspec.Description {
	const late = 100 * time.Millisecond
	return lockspec.Description{Name: "simulated session server", Class: lockspec.Session,
		Hazards:  []lockspec.Hazard{lockspec.Pause, lockspec.Suspend, lockspec.Partition, lockspec.Restart},
		Features: []lockspec.Feature{lockspec.OwnerChecked, lockspec.StrictTry},
		Bounds:   lockspec.Bounds{Takeover: explore.Silence + late, Loss: 3*probe + late}}
}

func (b sessions) ask(ctx context.Context, op explore.Op, c reference.Claim) error {
	r, err := b.n.Call(ctx, 0, explore.Request{Op: op, Key: c.Key, Owner: c.Owner})
	return problem(r, err)
}

func (b sessions) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	return reference.Grant{}, b.ask(ctx, explore.Acquire, c)
}

func (b sessions) Renew(ctx context.Context, c reference.Claim) error {
	return b.ask(ctx, explore.Renew, c)
}

func (b sessions) Release(ctx context.Context, c reference.Claim) error {
	return b.ask(ctx, explore.Release, c)
}
