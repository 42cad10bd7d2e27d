package chaos

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// The powers below reach into the service, beside those of the contract. They
// act on servers that the harness started itself, never on anybody's.
// ErrUnsupported: not of this service.

// Reviver is the power to restart the service with what it has put on disk.
type Reviver interface {
	Revive(ctx context.Context) error
}

// Failoverer is the power to let a replica take over from the service.
type Failoverer interface {
	// Follow starts a replica and returns once it knows all.
	Follow(ctx context.Context) (end func() error, err error)
	// Detach cuts it off: it hears nothing any more.
	Detach(ctx context.Context) error
	// Failover makes it the service, for everybody who connects from now on. The
	// former service dies, or lives on at its address. Healing makes the service
	// what it was before, with nothing of what happened since.
	Failover(ctx context.Context, survives bool) (former string, heal func(context.Context) error, err error)
}

// Demoter is the power to make the service a replica, which refuses writes.
type Demoter interface {
	Demote(ctx context.Context) (heal func(context.Context) error, err error)
}

// ScriptFlusher is the power to make the service forget every script.
type ScriptFlusher interface {
	FlushScripts(ctx context.Context) error
}

// Filler is the power to let the service's memory be full: it evicts what it
// may, or refuses to write.
type Filler interface {
	Fill(ctx context.Context, evicting bool) (heal func(context.Context) error, err error)
}

// Freezer is the power to make the service read-only, as one whose disk is full.
type Freezer interface {
	Freeze(ctx context.Context) (heal func(context.Context) error, err error)
}

// Crowder is the power to take every connection that the service has to give.
type Crowder interface {
	Crowd(ctx context.Context) (leave func(), err error)
}

// Pooler is the power to put a pooler that swaps sessions before the service.
type Pooler interface {
	Pool(ctx context.Context) (addr string, end func() error, err error)
}

// Member is the power over one server of a service that has several.
type Member interface {
	RestartOne(ctx context.Context, n int) error
	StopOne(ctx context.Context, n int) (heal func(context.Context) error, err error)
	ShiftOne(ctx context.Context, n int, d time.Duration) error
}

// serviceFaults strike every client.
var serviceFaults = []Fault{
	{Name: "server-pause", Strikes: OnService, Needs: "stop the service", Means: "the service stands still and answers nobody", offered: offers[contract.Stopper], strike: at(stopService)},
	{Name: "server-stall", As: "server-pause", Strikes: OnService, Needs: "stop the service", Means: "the service stands still for a moment, again and again", offered: offers[contract.Stopper], strike: at(stallService)},
	{Name: "restart", Hazard: lockspec.Restart, Strikes: OnService, Needs: "restart the service", Means: "the service is killed and started anew; what it does not keep is forgotten", offered: offers[contract.Restarter],
		strike: instant(func(ctx context.Context, p contract.Restarter, _ Step, _ string) error { return p.Restart(ctx) })},
	{Name: "revive", As: "restart", Hazard: lockspec.Restart, Strikes: OnService, Needs: "restart the service with its data", Means: "the service is killed and started anew with what it has put on disk", offered: offers[Reviver],
		strike: instant(func(ctx context.Context, p Reviver, _ Step, _ string) error { return p.Revive(ctx) })},
	{Name: "flush", Hazard: lockspec.Evict, Strikes: OnService, Needs: "empty the service", Means: "everything in the service is deleted", offered: offers[contract.Emptier],
		strike: instant(func(ctx context.Context, p contract.Emptier, _ Step, _ string) error { return p.Empty(ctx) })},
	{Name: "script-flush", Strikes: OnService, Needs: "make the service forget its scripts", Means: "the service forgets every script", offered: offers[ScriptFlusher],
		strike: instant(func(ctx context.Context, p ScriptFlusher, _ Step, _ string) error { return p.FlushScripts(ctx) })},
	{Name: "failover", Hazard: lockspec.Failover, Strikes: OnService, Needs: "let a replica take over", Means: "the service dies and a replica that was cut off before the latest grant takes over", offered: offers[Failoverer], prepare: failover(true, false)},
	{Name: "failover-kept", As: "failover", Hazard: lockspec.Failover, Strikes: OnService, Needs: "let a replica take over", Means: "the service dies and a replica that follows it takes over", offered: offers[Failoverer], prepare: failover(false, false)},
	{Name: "split-brain", As: "failover", Hazard: lockspec.Failover, Strikes: OnService, Needs: "let a replica take over, and lead a node to the former service", Means: "a replica that was cut off takes over, and the holder goes on with the former service", offered: func(h contract.Harness) bool { return offers[Failoverer](h) && offers[Linker](h) }, prepare: failover(true, true)},
	{Name: "demote", Strikes: OnService, Needs: "make the service a replica", Means: "the service becomes a replica and refuses writes", offered: offers[Demoter],
		strike: at(func(ctx context.Context, p Demoter, _ Step, _ string) (healer, error) { return p.Demote(ctx) })},
	{Name: "evict-full", As: "evict", Hazard: lockspec.Evict, Strikes: OnService, Needs: "fill the service's memory", Means: "the service's memory is full, and it evicts what may expire", offered: offers[Filler],
		strike: at(func(ctx context.Context, p Filler, _ Step, _ string) (healer, error) { return p.Fill(ctx, true) })},
	{Name: "out-of-memory", Strikes: OnService, Needs: "fill the service's memory", Means: "the service's memory is full, and it refuses what needs more", offered: offers[Filler],
		strike: at(func(ctx context.Context, p Filler, _ Step, _ string) (healer, error) { return p.Fill(ctx, false) })},
	{Name: "read-only", Strikes: OnService, Needs: "make the service read-only", Means: "the service refuses every write, as one whose disk is full", offered: offers[Freezer],
		strike: at(func(ctx context.Context, p Freezer, _ Step, _ string) (healer, error) { return p.Freeze(ctx) })},
	{Name: "crowd", Strikes: OnService, Needs: "take all connections of the service", Means: "the service has no connection left to give", offered: offers[Crowder], strike: at(crowd)},
	{Name: "pooler", Hazard: lockspec.Pooler, Strikes: OnService, Needs: "put a pooler before the service", Means: "a pooler that swaps sessions is put between the node and the service", offered: func(h contract.Harness) bool { return offers[Linker](h) && offers[Pooler](h) },
		prepare: lead(func(ctx context.Context, h contract.Harness) (string, func() error, error) {
			return h.(Pooler).Pool(ctx)
		})},
	{Name: "elect", Strikes: OnService, Needs: "let the members of the service choose a new leader", Means: "the members of the service choose a new leader, and answer nobody until they have", offered: func(contract.Harness) bool { return false }},
	{Name: "member-restart", As: "restart", Hazard: lockspec.Restart, Strikes: OnService, Needs: "restart one server of several", Means: "one server of several is started anew and empty, when another that had missed the grant is back", offered: offers[Member],
		prepare: missing(func(ctx context.Context, p Member, _ Step) error { return p.RestartOne(ctx, 0) })},
	{Name: "member-pause", As: "server-pause", Strikes: OnService, Needs: "stop one server of several", Means: "one server of several stands still", offered: offers[Member],
		strike: at(func(ctx context.Context, p Member, _ Step, _ string) (healer, error) { return p.StopOne(ctx, 0) })},
	{Name: "member-clock", As: "server-clock", Hazard: lockspec.ServerClock, Strikes: OnServerClock, Needs: "shift the clock of one server of several", Means: "the clock of one server of several jumps, when another that had missed the grant is back; emulated, as server-clock is", offered: offers[Member],
		prepare: missing(func(ctx context.Context, p Member, s Step) error { return p.ShiftOne(ctx, 0, s.By) })},
}

func stopService(ctx context.Context, p contract.Stopper, _ Step, _ string) (healer, error) {
	return p.Continue, p.Stop(ctx)
}

// stallService lets the service run for half of the time. The first stall has
// landed when it returns.
func stallService(ctx context.Context, p contract.Stopper, s Step, _ string) (healer, error) {
	if err := p.Stop(ctx); err != nil {
		return nil, err
	}
	end, done := make(chan struct{}), make(chan error, 1)
	go func() {
		ctx := context.WithoutCancel(ctx)
		for stopped := true; ; stopped = !stopped {
			select {
			case <-end:
				if stopped {
					done <- p.Continue(ctx)
				} else {
					done <- nil
				}
				return
			case <-time.After(s.By):
			}
			turn := p.Stop
			if stopped {
				turn = p.Continue
			}
			if err := turn(ctx); err != nil {
				done <- err
				return
			}
		}
	}()
	once := sync.OnceFunc(func() { close(end) })
	return func(ctx context.Context) error {
		once()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

func crowd(ctx context.Context, p Crowder, _ Step, _ string) (healer, error) {
	leave, err := p.Crowd(ctx)
	if err != nil {
		return nil, err
	}
	return undo(leave), nil
}

// lead prepares a server that the node is led to when it is struck. Connections
// that are open are reset, for a name is looked up when one is made.
func lead(start func(context.Context, contract.Harness) (addr string, end func() error, err error)) preparer {
	return func(ctx context.Context, h contract.Harness, s Step, _ string) (*Prepared, error) {
		p, err := power[Linker](h)
		if err != nil {
			return nil, err
		}
		l, err := p.Link(s.Node)
		if err != nil {
			return nil, err
		}
		addr, end, err := start(ctx, h)
		if err != nil {
			return nil, err
		}
		return &Prepared{
			Strike: func(context.Context) (healer, error) {
				l.Point(addr)
				l.Reset()
				return func(context.Context) error {
					l.Point("")
					l.Reset()
					return end()
				}, nil
			},
			Drop: func() { _ = end() },
		}, nil
	}
}

// failover prepares a replica. Where the former service lives on, the struck
// node stays with it, and everybody else is led to the replica.
func failover(cutOff, survives bool) preparer {
	return func(ctx context.Context, h contract.Harness, s Step, _ string) (*Prepared, error) {
		p, err := power[Failoverer](h)
		if err != nil {
			return nil, err
		}
		end, err := p.Follow(ctx)
		if err != nil {
			return nil, err
		}
		if cutOff {
			if err := p.Detach(ctx); err != nil {
				return nil, errors.Join(err, end())
			}
		}
		return &Prepared{
			Strike: func(ctx context.Context) (healer, error) {
				former, heal, err := p.Failover(ctx, survives)
				if err != nil || !survives {
					return heal, err
				}
				rejoin, err := splitOff(h, s.Node, former)
				return func(ctx context.Context) error {
					rejoin()
					return heal(ctx)
				}, err
			},
			Drop: func() { _ = end() },
		}, nil
	}
}

// splitOff leads a node to the former service, and all others away from it.
func splitOff(h contract.Harness, node, former string) (rejoin func(), err error) {
	p, err := power[Linker](h)
	if err != nil {
		return func() {}, err
	}
	own, err := p.Link(node)
	if err != nil {
		return func() {}, err
	}
	own.Point(former)
	for n := range Nodes {
		if other := nodeOf(0, n); other != node {
			l, err := p.Link(other)
			if err != nil {
				return func() { own.Point("") }, err
			}
			l.Reset()
		}
	}
	return func() { own.Point(""); own.Reset() }, nil
}

// missing prepares a grant that one server of several misses: it stands still
// until another forgets the grant.
func missing(forget func(ctx context.Context, p Member, s Step) error) preparer {
	return func(ctx context.Context, h contract.Harness, s Step, _ string) (*Prepared, error) {
		p, err := power[Member](h)
		if err != nil {
			return nil, err
		}
		back, err := p.StopOne(ctx, 1)
		if err != nil {
			return nil, err
		}
		return &Prepared{
			Strike: func(ctx context.Context) (healer, error) {
				return healed, errors.Join(back(ctx), forget(ctx, p, s))
			},
			Drop: func() { _ = back(context.WithoutCancel(ctx)) },
		}, nil
	}
}
