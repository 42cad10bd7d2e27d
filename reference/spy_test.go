package reference_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
)

// spy is a backend that notes every call, and lets a test come between.
type spy struct {
	reference.Backend
	onAttempt func(ctx context.Context, c reference.Claim) (reference.Grant, error)
	onRenew   func(ctx context.Context, c reference.Claim) error
	onRelease func(ctx context.Context, c reference.Claim) error

	mu    sync.Mutex
	calls []call
}

type call struct {
	op    string
	claim reference.Claim
	at    time.Time
}

func (s *spy) note(op string, c reference.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call{op, c, time.Now()})
}

// times tells when calls of an op came.
func (s *spy) times(op string) (at []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if c.op == op {
			at = append(at, c.at)
		}
	}
	return at
}

func (s *spy) count(op string) int { return len(s.times(op)) }

func (s *spy) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	s.note("attempt", c)
	if s.onAttempt != nil {
		return s.onAttempt(ctx, c)
	}
	return s.Backend.Attempt(ctx, c)
}

func (s *spy) Renew(ctx context.Context, c reference.Claim) error {
	s.note("renew", c)
	if s.onRenew != nil {
		return s.onRenew(ctx, c)
	}
	return s.Backend.Renew(ctx, c)
}

func (s *spy) Release(ctx context.Context, c reference.Claim) error {
	s.note("release", c)
	if s.onRelease != nil {
		return s.onRelease(ctx, c)
	}
	return s.Backend.Release(ctx, c)
}

// world is one service and engines on it, in a synctest bubble, which fails
// if a goroutine is left for good.
type world struct {
	*testing.T
	store *memory.Store
}

func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t, memory.New(nil)}
		t.Cleanup(func() { time.Sleep(3 * time.Hour) }) // backends that ignore their context
		f(w)
	})
}

// spy is a way of its own to the service.
func (w *world) spy() *spy { return &spy{Backend: w.store.Backend(nil)} }

func (w *world) engine(b reference.Backend, opts *reference.Options) *reference.Engine {
	w.Helper()
	e, err := reference.New(b, opts)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { e.Close() })
	return e
}

// node is an engine and its spy.
func (w *world) node(opts *reference.Options) (*reference.Engine, *spy) {
	s := w.spy()
	return w.engine(s, opts), s
}

// take acquires a key that must be free.
func (w *world) take(e *reference.Engine, key string, opts *reference.AcquireOptions) *reference.Lease {
	w.Helper()
	l, err := e.TryAcquire(w.Context(), key, opts)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// await bounds a wait; the bubble's time costs nothing.
func (w *world) await(done <-chan struct{}) {
	w.Helper()
	select {
	case <-done:
	case <-time.After(2 * time.Hour):
		w.Fatal("waited for two hours")
	}
}

func (w *world) free(key string) bool { return w.store.Inspect(key) == nil }

func (w *world) want(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("got %v, want %v", err, want)
	}
}

// lossReason is why a lease was lost, "" if it was not.
func lossReason(err error) reference.Reason {
	var loss *reference.LostError
	if !errors.As(err, &loss) {
		return ""
	}
	return loss.Reason
}

var errFlaky = errors.New("the network ate it")

func unavailable(context.Context, reference.Claim) error { return errFlaky }

func hang(ctx context.Context, _ reference.Claim) error {
	<-ctx.Done()
	return ctx.Err()
}

// zero is a source of randomness that makes every jitter the whole delay.
type zero struct{}

func (zero) Uint64() uint64 { return 0 }

func gaps(at []time.Time) (d []time.Duration) {
	for i := 1; i < len(at); i++ {
		d = append(d, at[i].Sub(at[i-1]))
	}
	return d
}

// memoryOn is a backend on a store of its own.
func memoryOn(c fakeclock.Clock) reference.Backend { return memory.New(c).Backend(nil) }
