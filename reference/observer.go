package reference

import (
	"context"
	"time"
)

// Observer is told what an engine does, for traces and metrics. It must be
// quick and must not call back. Keys are not told: they routinely carry ids.
type Observer interface {
	// Start is told of an operation that begins. The context it returns is
	// used for the operation; the function it returns is called once at its end.
	Start(ctx context.Context, op string) (context.Context, func(End))
	// Granted is told of a tenure that begins, Ended that it ended: after so
	// long, by ErrReleased or a *LostError. Each is called once a tenure.
	Granted(token int64)
	Ended(held time.Duration, cause error)
}

// End is how an operation ended.
type End struct {
	Err      error // nil: it did what was asked
	Attempts int   // how often the backend was asked
	Token    int64 // of the tenure, 0: none
}

// noObserver observes nothing and allocates nothing.
type noObserver struct{}

func (noObserver) Start(ctx context.Context, _ string) (context.Context, func(End)) {
	return ctx, ignoreEnd
}
func (noObserver) Granted(int64)              {}
func (noObserver) Ended(time.Duration, error) {}

func ignoreEnd(End) {}
