package redis

import (
	"context"
	"sync"
	"time"
)

// workers are goroutines that make calls of the server for others. They are
// kept, because a call of the client needs a deep stack, and growing one anew
// took a tenth of the time of a call.
type workers struct {
	jobs   chan func() // taken by those that are idle
	idle   chan struct{}
	closed chan struct{}
	once   *sync.Once
}

// idleMost is how many are kept while there is nothing to do.
const idleMost = 32

func newWorkers() workers {
	return workers{make(chan func()), make(chan struct{}, idleMost), make(chan struct{}), &sync.Once{}}
}

// run runs f in another goroutine.
func (w *workers) run(f func()) {
	select {
	case w.jobs <- f:
	default:
		go w.work(f)
	}
}

func (w *workers) work(f func()) {
	for {
		f()
		select {
		case w.idle <- struct{}{}:
		default:
			return // enough are idle
		}
		select {
		case f = <-w.jobs:
			<-w.idle
		case <-w.closed:
			return
		}
	}
}

// close ends those that are idle; the others end with what they do.
func (w *workers) close() { w.once.Do(func() { close(w.closed) }) }

// bounded runs f until ctx ends. Then f is left alone and not waited for: the
// client heeds no cancellation while it reads, and takes the deadline of a
// context for one of this machine's clock, which an engine's need not be. What
// f still does ends with the lease that it is about, at the latest with
// callLimit.
func bounded[T any](ctx context.Context, w *workers, lease time.Duration, f func(context.Context) (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	done := make(chan reply, 1)
	w.run(func() {
		within, cancel := context.WithTimeout(context.Background(), min(callLimit, max(lease, leastLimit)))
		defer cancel()
		v, err := f(within)
		done <- reply{v, err}
	})
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// leastLimit is enough for a call of a server that answers, dialling included.
const leastLimit = 250 * time.Millisecond
