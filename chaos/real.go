package chaos

import (
	"context"
	"fmt"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// Real is the world of operating-system processes, of TCP connections and of
// servers, as far as a harness has power over them.
type Real struct{ h contract.Harness }

// NewReal is the real world of the harness.
func NewReal(h contract.Harness) *Real { return &Real{h} }

// Can implements World. What the operating system or the service cannot do is
// found when it is tried.
func (w *Real) Can(f *Fault) error {
	if f.offered(w.h) {
		return nil
	}
	return fmt.Errorf("%w: harness cannot %s", lockspec.ErrUnsupported, f.Needs)
}

// Prepare implements World.
func (w *Real) Prepare(ctx context.Context, s Step, key string) (*Prepared, error) {
	f := fault(s.Fault)
	if f.prepare != nil {
		return f.prepare(ctx, w.h, s, key)
	}
	return &Prepared{Strike: func(ctx context.Context) (healer, error) { return f.strike(ctx, w.h, s, key) }}, nil
}
