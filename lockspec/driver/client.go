package driver

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Client is an owner of its own in the driver's process, and safe for
// concurrent use. It goes on with the next incarnation of the node. Closing it
// releases nothing; the protocol has no word for that.
//
// It is a [lockspec.Describer] and a [lockspec.Sectioner]. Its leases have every
// power; what the lock does not claim answers ErrUnsupported or never happens.
// Only those with a token are [lockspec.Fenced].
func (n *Node) Client(process string) lockspec.Client {
	return &client{node: n, process: process}
}

type client struct {
	node    *Node
	process string
	closed  atomic.Bool
}

var (
	_ lockspec.Describer = (*client)(nil)
	_ lockspec.Sectioner = (*client)(nil)
)

func (c *client) Describe() lockspec.Description { return c.node.Describe() }

func (c *client) Close() error {
	c.closed.Store(true)
	return nil
}

func (c *client) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	got, err := c.node.current().do(ctx, acquisition(opAcquire, c.process, r))
	if err != nil {
		return nil, err
	}
	return got.lease.fenced(), nil
}

func (c *client) usable() error {
	if c.closed.Load() {
		return harmless{fmt.Errorf("%w: client %s is closed", lockspec.ErrUnavailable, c.process)}
	}
	return nil
}

// Section runs a section in the driver.
func (c *client) Section(ctx context.Context, r lockspec.Request, work time.Duration, entered func(lockspec.Lease), left func(lockspec.Stamp)) (int64, error) {
	if err := c.usable(); err != nil {
		return 0, err
	}
	q := acquisition(opSection, c.process, r)
	q.WorkMS = Millis(work)
	conn := c.node.current()
	k, err := conn.send(q)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", opSection, err)
	}
	k.late = lockspec.LateOf(ctx)
	type end struct {
		reply
		err error
	}
	ended := make(chan end, 1)
	go func() {
		got, err := conn.await(ctx, k)
		ended <- end{got, err}
	}()
	for {
		select {
		case l := <-k.entered:
			entered(l.fenced())
		case after := <-k.left:
			left(after)
		case e := <-ended:
			k.rest(entered, left)
			return int64(e.Token), e.err
		}
	}
}

// rest delivers what came before the reply and was not looked at yet.
func (k *call) rest(entered func(lockspec.Lease), left func(lockspec.Stamp)) {
	select {
	case l := <-k.entered:
		entered(l.fenced())
	default:
	}
	select {
	case after := <-k.left:
		left(after)
	default:
	}
}
