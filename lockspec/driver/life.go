package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Pause stops every process of the node's group and returns once they are. On a
// system that cannot, the error matches ErrUnsupported.
func (n *Node) Pause() error {
	n.life.Lock()
	defer n.life.Unlock()
	n.quiet.begin(n.stamp())
	err := n.process.stop()
	if err != nil {
		n.quiet.end(n.stamp(), n.config.Settle)
		return fmt.Errorf("node %s: %w", n.config.Name, err)
	}
	n.mu.Lock()
	n.paused = true
	n.mu.Unlock()
	return nil
}

// Resume lets the node run again. A node that is not paused is left alone.
func (n *Node) Resume() error {
	n.life.Lock()
	defer n.life.Unlock()
	n.mu.Lock()
	paused := n.paused
	n.paused = false
	n.mu.Unlock()
	if !paused {
		return nil
	}
	err := continueGroup(n.process.pgid)
	n.quiet.end(n.stamp(), n.config.Settle)
	if err != nil {
		return fmt.Errorf("node %s: %w", n.config.Name, err)
	}
	return nil
}

// Kill ends the node's process group, paused or not, and returns once it is
// gone. What its clients held is not released.
func (n *Node) Kill() error {
	n.life.Lock()
	defer n.life.Unlock()
	return n.end(errKilled)
}

// end kills what runs. life is held.
func (n *Node) end(why error) error {
	n.expect()
	n.mu.Lock()
	p, c := n.process, n.conn
	n.paused = false
	n.mu.Unlock()
	n.quiet.begin(n.stamp())
	if err := p.kill(); err != nil {
		return fmt.Errorf("node %s: %w", n.config.Name, err)
	}
	select {
	case <-c.done:
	case <-time.After(2 * drainLimit):
		c.fail(why)
	}
	n.quiet.end(n.stamp(), n.config.Settle)
	return nil
}

// expect makes the end of the process an asked one, unless it came before it
// was asked for.
func (n *Node) expect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.process.exited:
	default:
		n.process.asked = true
	}
}

// Restart starts the driver again under the same name, as the next incarnation.
// What still runs is killed first. Clients go over to it; leases do not.
func (n *Node) Restart(ctx context.Context) error {
	n.life.Lock()
	defer n.life.Unlock()
	if n.isClosed() {
		return &Broken{Node: n.config.Name, What: "cannot restart", Err: errClosed}
	}
	if err := n.end(errKilled); err != nil {
		return err
	}
	// An end that nobody asked for is told before the next incarnation begins.
	select {
	case <-n.process.told:
	case <-time.After(2 * drainLimit):
	}
	return n.launch(ctx)
}

// shutdownLimit is more than a driver needs that bounds all its calls.
const shutdownLimit = 6 * callBound

// Shutdown asks the driver to end, releasing what it holds or not, and waits
// until it has. One that does not within ctx is killed, and the error says so.
func (n *Node) Shutdown(ctx context.Context, release bool) error {
	n.life.Lock()
	defer n.life.Unlock()
	n.expect()
	ctx, cancel := context.WithTimeout(ctx, shutdownLimit)
	defer cancel()
	_, err := n.current().do(ctx, Request{Op: opShutdown, Release: release})
	if err == nil {
		select {
		case <-n.process.exited:
			return nil
		case <-ctx.Done():
			err = fmt.Errorf("shutdown: it answered and did not exit: %w", ctx.Err())
		}
	}
	return errors.Join(err, n.end(errKilled))
}

// Close kills the driver if it still runs and gives up the node. It is safe to
// call twice.
func (n *Node) Close() error {
	n.life.Lock()
	defer n.life.Unlock()
	n.mu.Lock()
	again := n.closed
	n.closed = true
	n.mu.Unlock()
	if again {
		return nil
	}
	err := n.end(errClosed)
	n.readers.Wait()
	return err
}

func (n *Node) isGreeted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.greeted
}

func (n *Node) isClosed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// Exited is closed once the present incarnation has ended and is reaped.
func (n *Node) Exited() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process.exited
}

// Err is the first violation of the protocol, a *Broken, or nil.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.broken
}

// Describe is what the driver's last hello said of the lock.
func (n *Node) Describe() lockspec.Description {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.says
}

// MaxProcesses is how many operations the driver takes at once; 0: it did not
// say.
func (n *Node) MaxProcesses() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.most
}

// Name is the name of the node.
func (n *Node) Name() string { return n.config.Name }

// Incarnation counts the starts of the driver: 1 is the first.
func (n *Node) Incarnation() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.incarnation
}

// PID is the process id of the present incarnation, and that of its group.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process.pgid
}

// Paused says whether the node is stopped by Pause.
func (n *Node) Paused() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.paused
}

// ClockProven says whether the driver's stamps are believed: it claims the
// shared clock and was never caught being wrong.
func (n *Node) ClockProven() bool { return n.clock.proven() }

// Ping asks whether the driver answers, and with service whether its lock
// service does.
func (n *Node) Ping(ctx context.Context, service bool) error {
	_, err := n.current().do(ctx, Request{Op: opPing, Service: service})
	return err
}

// SetClock shifts the clock that the node's clients read.
func (n *Node) SetClock(ctx context.Context, offset time.Duration, rate float64) error {
	_, err := n.current().do(ctx, Request{Op: opClock, OffsetMS: Millis(offset), Rate: rate})
	return err
}
