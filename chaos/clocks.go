package chaos

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
)

// clockFaults put clocks wrong.
var clockFaults = []Fault{
	{Name: "client-clock", Hazard: lockspec.ClientClock, Strikes: OnClock, Needs: runNodes,
		Means: "the clock that the node's lock reads jumps, or runs fast or slow", offered: offers[contract.NodeHost], strike: onNode(clientClock)},
	{Name: "server-clock", Hazard: lockspec.ServerClock, Strikes: OnServerClock, Needs: "shift the service's clock",
		Means: "the service's clock jumps; emulated where the service measures leases by a clock that nobody can set: every lease of this run ends earlier, or later", offered: offers[ClockShifter],
		strike: instant(func(ctx context.Context, p ClockShifter, s Step, _ string) error { return p.ShiftClock(ctx, s.By) })},
}

// ClockShifter is the power to let the service's clock jump ahead by d, or back
// if it is negative.
type ClockShifter interface {
	ShiftClock(ctx context.Context, d time.Duration) error
}

func clientClock(ctx context.Context, n *driver.Node, s Step) (healer, error) {
	rate := s.Rate
	if rate == 0 {
		rate = 1
	}
	incarnation := n.Incarnation()
	return func(ctx context.Context) error {
		if n.Incarnation() != incarnation {
			return nil // who was started anew has a clock that is right
		}
		return n.SetClock(ctx, 0, 1)
	}, n.SetClock(ctx, s.By, rate)
}
