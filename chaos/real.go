package chaos

import (
	"context"
	"fmt"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// Real is the world of operating-system processes that a harness runs as
// nodes.
type Real struct{ host contract.NodeHost }

// NewReal is the real world of the harness.
func NewReal(host contract.NodeHost) *Real { return &Real{host} }

// Can is nil for every fault that has a method here. What the operating system
// cannot do is found when it is tried.
func (w *Real) Can(f Fault) error {
	switch f.Name {
	case "pause", "kill":
		return nil
	}
	return fmt.Errorf("%w: the real world has no fault %s", lockspec.ErrUnsupported, f.Name)
}

// Strike implements World.
func (w *Real) Strike(ctx context.Context, f Fault, node string) (func(context.Context) error, error) {
	n, err := w.host.Node(ctx, node)
	if err != nil {
		return nil, err
	}
	switch f.Name {
	case "pause":
		return func(context.Context) error { return n.Resume() }, n.Pause()
	case "kill":
		// What is dead stays dead; the harness starts a node of the name anew
		// when the next process is opened on it.
		return func(context.Context) error { return nil }, n.Kill()
	}
	return nil, w.Can(f)
}
