package reference_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// promptSpy is a spy that promises to return with its context.
type promptSpy struct{ *spy }

func (promptSpy) Prompt() {}

// TestPromptIsCalledDirectly: the calls of a prompt backend cost no goroutine.
func TestPromptIsCalledDirectly(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.spy()
		e := w.engine(promptSpy{s}, nil)
		before := runtime.NumGoroutine()
		look := func(op string) {
			if n := runtime.NumGoroutine(); n != before {
				w.Errorf("%s runs beside %d goroutines, before it were %d", op, n, before)
			}
		}
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			look("attempt")
			return s.Backend.Attempt(ctx, c)
		}
		s.onRenew = func(ctx context.Context, c reference.Claim) error {
			look("renew")
			return s.Backend.Renew(ctx, c)
		}
		s.onRelease = func(ctx context.Context, c reference.Claim) error {
			look("release")
			return s.Backend.Release(ctx, c)
		}
		l, err := e.TryAcquire(context.Background(), "k", &reference.AcquireOptions{Renew: lockspec.RenewManual})
		if err != nil {
			w.Fatal(err)
		}
		if err := l.Renew(context.Background(), 0); err != nil {
			w.Error(err)
		}
		if err := l.Release(context.Background()); err != nil {
			w.Error(err)
		}
	})
}

// TestPromptIsGivenUp: an acquisition that may be cancelled returns at once,
// and what the call still wins is released. A call that hangs ends with its
// context, so that the engine's bounds hold.
func TestPromptIsGivenUp(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.spy()
		e := w.engine(promptSpy{s}, &reference.Options{Lease: 10 * time.Second, AttemptTimeout: time.Second})
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			time.Sleep(500 * time.Millisecond)
			return s.Backend.Attempt(ctx, c)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := e.TryAcquire(ctx, "k", nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 100*time.Millisecond {
			w.Errorf("given up after %v: %v", time.Since(begin), err)
		}
		time.Sleep(time.Second)
		if _, err := e.TryAcquire(context.Background(), "k", nil); err != nil {
			w.Errorf("the key stayed held: %v", err)
		}

		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			<-ctx.Done()
			return reference.Grant{}, ctx.Err()
		}
		begin = time.Now()
		_, err := e.TryAcquire(context.Background(), "other", nil)
		if !errors.Is(err, lockspec.ErrUnavailable) || time.Since(begin) != time.Second {
			w.Errorf("a service that says nothing: %v after %v", err, time.Since(begin))
		}
	})
}

// TestPromptIsClosed: a grant that comes when the engine was closed is given
// back, and nobody gets it.
func TestPromptIsClosed(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.spy()
		e := w.engine(promptSpy{s}, nil)
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			time.Sleep(100 * time.Millisecond)
			return s.Backend.Attempt(ctx, c)
		}
		closed := make(chan error)
		go func() { time.Sleep(50 * time.Millisecond); closed <- e.Close() }()
		if _, err := e.TryAcquire(context.Background(), "k", nil); !errors.Is(err, reference.ErrClosed) {
			w.Errorf("acquired when the engine was closed: %v", err)
		}
		if err := <-closed; err != nil {
			w.Error(err)
		}
		if n := s.count("release"); n != 1 {
			w.Errorf("%d releases of the grant that nobody got", n)
		}
	})
}

// TestPromptPanics: a panic becomes an error on the caller's goroutine too.
func TestPromptPanics(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.spy()
		e := w.engine(promptSpy{s}, nil)
		s.onAttempt = func(context.Context, reference.Claim) (reference.Grant, error) { panic("oh") }
		var p *reference.PanicError
		if _, err := e.TryAcquire(context.Background(), "k", nil); !errors.As(err, &p) {
			w.Error(err)
		}
	})
}
