package reference_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// watcher writes down what it is told.
type watcher struct {
	mu   sync.Mutex
	told []string
	held int
}

type seen struct{}

func (w *watcher) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

func (w *watcher) Start(ctx context.Context, op string) (context.Context, func(reference.End)) {
	return context.WithValue(ctx, seen{}, op), func(e reference.End) {
		w.note("%s: %s, %d attempts, token %v", op, lockspec.OutcomeOf(e.Err), e.Attempts, e.Token > 0)
	}
}

func (w *watcher) Granted(token int64) {
	w.note("granted %v", token > 0)
	w.mu.Lock()
	w.held++
	w.mu.Unlock()
}

func (w *watcher) Ended(held time.Duration, cause error) {
	w.note("ended after %v: %s", held, lockspec.OutcomeOf(cause))
	w.mu.Lock()
	w.held--
	w.mu.Unlock()
}

func TestObserverIsToldEverythingOnce(t *testing.T) {
	bubble(t, func(w *world) {
		o := &watcher{}
		e, s := w.node(&reference.Options{Observer: o, MinRetryDelay: 100 * time.Millisecond})
		var ops []any
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			ops = append(ops, ctx.Value(seen{}))
			return s.Backend.Attempt(ctx, c)
		}
		l := w.take(e, "k", nil)
		e.Acquire(w.Context(), "k", &reference.AcquireOptions{Wait: 100 * time.Millisecond})
		l.Release(w.Context())
		l.Release(w.Context())
		l = w.take(e, "k", nil)
		w.store.Delete("k")
		w.want(l.Renew(w.Context(), 0), lockspec.ErrLost)
		l.Release(w.Context())
		e.TryAcquire(w.Context(), "", nil)
		want := []string{
			"granted true", "try-acquire: ok, 1 attempts, token true",
			"acquire: timeout, 2 attempts, token false",
			"ended after 100ms: not-held", "release: ok, 1 attempts, token true",
			"granted true", "try-acquire: ok, 1 attempts, token true",
			"ended after 0s: lost", "renew: lost, 1 attempts, token true",
			"release: lost, 1 attempts, token true",
			"try-acquire: invalid-key, 0 attempts, token false",
		}
		if !slices.Equal(o.told, want) {
			t.Errorf("told:\n%q, want:\n%q", o.told, want)
		}
		if o.held != 0 {
			t.Errorf("%d held", o.held)
		}
		if !slices.Equal(ops, []any{"try-acquire", "acquire", "acquire", "try-acquire"}) {
			t.Errorf("the backend saw the contexts of %v", ops)
		}
	})
}
