package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
)

const runNodes = "run nodes as processes"

// nodeFaults strike a node's processes.
var nodeFaults = []Fault{
	{Name: "pause", Hazard: lockspec.Pause, Strikes: OnNode, Needs: runNodes,
		Means: "the node's processes are stopped (SIGSTOP) and continued later", offered: offers[contract.NodeHost], strike: onNode(pause)},
	{Name: "starve", As: "pause", Hazard: lockspec.Pause, Strikes: OnNode, Needs: runNodes,
		Means: "the node's processes get a hundredth of the time, in slices, as on a machine that has too much to do", offered: offers[contract.NodeHost], strike: onNode(starve)},
	{Name: "kill", Strikes: OnNode, Needs: runNodes,
		Means: "the node's processes are killed (SIGKILL)", offered: offers[contract.NodeHost], strike: onNode(kill)},
	{Name: "shutdown", As: "kill", Strikes: OnNode, Needs: runNodes,
		Means: "the node is told to give back what it holds and to end", offered: offers[contract.NodeHost], strike: onNode(shutdown)},
	{Name: "suspend", Hazard: lockspec.Suspend, Strikes: OnNode, Needs: "stop a node's clock with it",
		Means: "the node and its monotonic clock stand still, as a virtual machine's do", offered: func(contract.Harness) bool { return false }},
}

func onNode(do func(ctx context.Context, n *driver.Node, s Step) (healer, error)) striker {
	return at(func(ctx context.Context, host contract.NodeHost, s Step, _ string) (healer, error) {
		n, err := host.Node(ctx, s.Node)
		if err != nil {
			return nil, err
		}
		return do(ctx, n, s)
	})
}

func pause(_ context.Context, n *driver.Node, _ Step) (healer, error) {
	return func(context.Context) error { return n.Resume() }, n.Pause()
}

// starve stops the node for nearly all of the time. The first stop has landed
// when it returns.
func starve(_ context.Context, n *driver.Node, s Step) (healer, error) {
	if err := n.Pause(); err != nil {
		return nil, err
	}
	end, done := make(chan struct{}), make(chan error, 1)
	stopped := max(s.By, 50*time.Millisecond)
	go func() {
		for {
			select {
			case <-time.After(stopped):
			case <-end:
				done <- n.Resume()
				return
			}
			if err := n.Resume(); err != nil {
				done <- err
				return
			}
			time.Sleep(stopped / 100)
			if err := n.Pause(); err != nil {
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

// kill: what is dead stays dead; the harness starts a node of the name anew when
// the next process is opened on it.
func kill(_ context.Context, n *driver.Node, _ Step) (healer, error) { return healed, n.Kill() }

// errNotGivenBack is a shutdown that its node could not finish in order.
var errNotGivenBack = errors.New("the node did not give back what it held before it ended")

func shutdown(ctx context.Context, n *driver.Node, _ Step) (healer, error) {
	if err := n.Shutdown(ctx, true); err != nil {
		return healed, fmt.Errorf("%w: %w", errNotGivenBack, err)
	}
	return healed, nil
}
