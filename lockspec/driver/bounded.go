package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// forever as a limit is none.
const forever time.Duration = -1

// bounded makes a call that comes back in time even if the client does not:
// limit after its start at the latest, and callBound after ctx ended. A call
// that does not is answered ErrUnavailable, and what it returns without an
// error later goes to late.
func bounded[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error), late func(T)) (T, error) {
	inner := ctx
	if limit != forever {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeout(ctx, limit-callGrace)
		defer cancel()
	}
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := call(inner)
		results <- result{value, err}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-inner.Done():
	}
	grace := callGrace
	if ctx.Err() != nil {
		grace = callBound
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-results:
		if ctx.Err() == nil && errors.Is(r.err, context.DeadlineExceeded) {
			r.err = fmt.Errorf("%w: no answer within %v", lockspec.ErrUnavailable, limit)
		}
		return r.value, r.err
	case <-timer.C:
	}
	go func() {
		if r := <-results; r.err == nil && late != nil {
			late(r.value)
		}
	}()
	var none T
	return none, fmt.Errorf("%w: the call did not come back", lockspec.ErrUnavailable)
}
