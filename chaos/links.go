package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// Linker is the power over the way of each node to the service. A node that a
// scenario runs on goes that way from its start.
type Linker interface {
	Link(node string) (Link, error)
}

// Direction is what of a way a fault strikes.
type Direction int

// The directions.
const (
	Requests Direction = 1 << iota
	Replies
	Both = Requests | Replies
)

// Link is the way of one node to the service. Healing may be called twice.
type Link interface {
	// Cut holds what is sent, the end of a connection too, until it is healed.
	Cut(d Direction) (heal func())
	// Reset ends every connection at once.
	Reset() (connections int)
	// Refuse refuses new connections.
	Refuse() (heal func() error, err error)
	// Slow makes everything that is sent come later, and no faster than so many
	// bytes a second; 0: as fast as ever.
	Slow(d Direction, latency time.Duration, bytesPerSecond int) (heal func())
	// CutAfter cuts the direction once so many more bytes of it have passed.
	CutAfter(d Direction, bytes int) (heal func())
	// Point leads new connections to another server; empty: back to the service.
	Point(addr string)
	// Connections is how many are open.
	Connections() int
	// Passed is how many bytes have passed so far, both ways.
	Passed() int64
}

const holdLinks = "put a proxy between a node and the service"

// linkFaults strike the way of one node.
var linkFaults = []Fault{
	{Name: "partition", Hazard: lockspec.Partition, Strikes: OnLink, Needs: holdLinks, Means: "nothing passes between the node and the service; all is delivered on healing", offered: offers[Linker], strike: cut(Both)},
	{Name: "cut-requests", As: "partition", Hazard: lockspec.Partition, Strikes: OnLink, Needs: holdLinks, Means: "nothing of the node reaches the service until healing", offered: offers[Linker], strike: cut(Requests)},
	{Name: "cut-replies", As: "partition", Hazard: lockspec.Partition, Strikes: OnLink, Needs: holdLinks, Means: "requests pass, replies are held until healing", offered: offers[Linker], strike: cut(Replies)},
	{Name: "half-open", As: "partition", Hazard: lockspec.Partition, Strikes: OnLink, Needs: holdLinks, Means: "the node's connections die and neither side is told", offered: offers[Linker], strike: halfOpen},
	{Name: "cut-mid-request", As: "partition", Hazard: lockspec.Partition, Strikes: OnLink, Needs: holdLinks, Means: "the way is cut in the middle of a request", offered: offers[Linker], strike: cutMidRequest},
	{Name: "reset", Strikes: OnLink, Needs: holdLinks, Means: "every connection of the node is reset once", offered: offers[Linker], strike: reset},
	{Name: "reset-storm", As: "partition", Hazard: lockspec.Partition, Strikes: OnLink, Needs: holdLinks, Means: "every connection of the node is reset, again and again", offered: offers[Linker], strike: resetStorm},
	{Name: "refuse", As: "partition", Hazard: lockspec.Partition, Strikes: OnLink, Needs: holdLinks, Means: "the node's connections are reset and new ones refused", offered: offers[Linker], strike: refuse},
	{Name: "latency", Strikes: OnLink, Needs: holdLinks, Means: "everything between the node and the service takes longer", offered: offers[Linker], strike: latency},
	{Name: "slow-link", As: "partition", Hazard: lockspec.Partition, Strikes: OnLink, Needs: holdLinks, Means: "one byte a second passes each way", offered: offers[Linker], strike: slowLink},
	{Name: "endpoint-flip", As: "restart", Hazard: lockspec.Restart, Strikes: OnLink, Needs: "lead a node to another server", Means: "the name of the service leads the node to another, empty server", offered: func(h contract.Harness) bool { return offers[Linker](h) && offers[Sparer](h) },
		prepare: lead(func(ctx context.Context, h contract.Harness) (string, func() error, error) {
			return h.(Sparer).Spare(ctx)
		})},
}

func onLink(do func(ctx context.Context, l Link, s Step) (healer, error)) striker {
	return at(func(ctx context.Context, p Linker, s Step, _ string) (healer, error) {
		l, err := p.Link(s.Node)
		if err != nil {
			return nil, err
		}
		return do(ctx, l, s)
	})
}

// undo is the healer that calls undo.
func undo(undo func()) healer {
	return func(context.Context) error { undo(); return nil }
}

// used is an error where the client has no connection by its proxy: it would not
// notice what is done to that.
func used(l Link) error {
	if l.Passed() == 0 {
		return fmt.Errorf("%w: nothing of this node has passed its proxy; does it use the endpoint that it was given?", errNotLanded)
	}
	return nil
}

func cut(d Direction) striker {
	return onLink(func(_ context.Context, l Link, _ Step) (healer, error) {
		return undo(l.Cut(d)), used(l)
	})
}

// halfOpen: on healing the connections that died are reset, so that nothing of
// them arrives late.
var halfOpen = onLink(func(_ context.Context, l Link, _ Step) (healer, error) {
	open := l.Cut(Both)
	return undo(func() { l.Reset(); open() }), used(l)
})

// cutMidRequest: a few bytes are less than any request is long.
var cutMidRequest = onLink(func(_ context.Context, l Link, _ Step) (healer, error) {
	return undo(l.CutAfter(Requests, 7)), used(l)
})

var reset = onLink(func(_ context.Context, l Link, _ Step) (healer, error) {
	if l.Reset() == 0 {
		return healed, fmt.Errorf("%w: the node has no connection", errNotLanded)
	}
	return healed, nil
})

var resetStorm = onLink(func(_ context.Context, l Link, s Step) (healer, error) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(s.By)
		defer tick.Stop()
		for {
			l.Reset()
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	}()
	return undo(sync.OnceFunc(func() { close(end); <-done })), used(l)
})

var refuse = onLink(func(_ context.Context, l Link, _ Step) (healer, error) {
	heal, err := l.Refuse()
	if err != nil {
		return nil, err
	}
	l.Reset()
	return func(context.Context) error { return heal() }, used(l)
})

var latency = onLink(func(_ context.Context, l Link, s Step) (healer, error) {
	return undo(l.Slow(Both, s.By, 0)), used(l)
})

var slowLink = onLink(func(_ context.Context, l Link, _ Step) (healer, error) {
	return undo(l.Slow(Both, 0, 1)), used(l)
})

// Sparer is the power to start another, empty server like the service's.
type Sparer interface {
	Spare(ctx context.Context) (addr string, end func() error, err error)
}
