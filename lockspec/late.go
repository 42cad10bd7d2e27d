package lockspec

import (
	"context"
	"time"
)

// Late is the answer to a call whose caller had given up by the time it came.
// What it granted nobody knows of but whoever is told.
type Late struct {
	Lease   Lease         // that a late acquisition was granted; who is told must release it
	Granted time.Duration // by a renewal
	Token   int64         // of a write
	Err     error         // nil: ok
}

type lateKey struct{}

// WithLate lets a client that learns of the answer to a call only after it
// returned tell it, once. The function must not block. A client that cannot
// tell, or a call without one, cleans up after itself.
func WithLate(ctx context.Context, tell func(Late)) context.Context {
	return context.WithValue(ctx, lateKey{}, tell)
}

// LateOf is who wants to be told; nil: nobody.
func LateOf(ctx context.Context) func(Late) {
	tell, _ := ctx.Value(lateKey{}).(func(Late))
	return tell
}
