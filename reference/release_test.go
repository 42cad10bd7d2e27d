package reference_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

func TestB03_ReleasesShareOneDelete(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		s.onRelease = func(ctx context.Context, c reference.Claim) error {
			time.Sleep(time.Second)
			return s.Backend.Release(ctx, c)
		}
		l := w.take(e, "k", nil)
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() { w.want(l.Release(w.Context()), nil) })
		}
		all.Wait()
		w.want(l.Release(w.Context()), nil) // B02
		if n := s.count("release"); n != 1 {
			t.Errorf("%d deletes", n)
		}
		w.want(l.Err(), reference.ErrReleased) // B09
		w.want(context.Cause(l.Context()), lockspec.ErrNotHeld)
		if errors.Is(l.Err(), lockspec.ErrLost) {
			t.Errorf("a release is a loss: %v", l.Err())
		}
	})
}

func TestB05_ReleaseOutlivesItsContext(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		s.onRelease = func(ctx context.Context, c reference.Claim) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return s.Backend.Release(ctx, c)
		}
		l := w.take(e, "k", nil)
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		w.want(l.Release(ctx), nil)
		if !w.free("k") {
			t.Error("not released")
		}
	})
}

// B07: a release whose answer was lost is tried again, and never hurts the
// next owner.
func TestB07_ReleaseIsRetriedSafely(t *testing.T) {
	for name, tc := range map[string]struct {
		taken bool
		want  error
	}{"free since": {false, lockspec.ErrUnavailable}, "taken since": {true, lockspec.ErrUnavailable}} {
		bubble(t, func(w *world) {
			e, s := w.node(nil)
			other, _ := w.node(nil)
			l := w.take(e, "k", nil)
			n := 0
			s.onRelease = func(ctx context.Context, c reference.Claim) error {
				err := s.Backend.Release(ctx, c)
				if n++; n == 1 {
					if tc.taken {
						w.take(other, "k", nil)
					}
					return errFlaky
				}
				return err
			}
			w.want(l.Release(w.Context()), tc.want)
			if n != 2 || w.free("k") == tc.taken {
				t.Errorf("%s: %d tries, free %v", name, n, w.free("k"))
			}
		})
	}
}

func TestReleaseIsBounded(t *testing.T) {
	for name, release := range map[string]func(context.Context, reference.Claim) error{
		"fails": unavailable, "hangs": hang,
		"panics":         func(context.Context, reference.Claim) error { panic("broken") },
		"hangs for good": func(context.Context, reference.Claim) error { time.Sleep(time.Hour); return nil },
	} {
		bubble(t, func(w *world) {
			e, s := w.node(&reference.Options{ReleaseTimeout: 3 * time.Second})
			s.onRelease = release
			l := w.take(e, "k", nil)
			begin := time.Now()
			w.want(l.Release(w.Context()), lockspec.ErrUnavailable)
			if d := time.Since(begin); d > 3*time.Second || s.count("release") < 3 {
				t.Errorf("%s: gave up after %v and %d tries", name, d, s.count("release"))
			}
			time.Sleep(time.Minute)
			if s.count("renew") > 0 || !w.free("k") {
				t.Errorf("%s: renewed after its release", name)
			}
		})
	}
}

// B08: a renewal under way ends before Release does, unless the backend ignores
// its context for long.
func TestB08_NoRenewalAfterRelease(t *testing.T) {
	for name, tc := range map[string]struct {
		renew func(context.Context, reference.Claim) error
		waits time.Duration
	}{
		"heeds": {hang, 0},
		"lags":  {func(context.Context, reference.Claim) error { time.Sleep(time.Second); return nil }, time.Second - time.Millisecond},
		"hangs": {func(context.Context, reference.Claim) error { time.Sleep(time.Hour); return nil }, time.Second},
	} {
		bubble(t, func(w *world) {
			e, s := w.node(&reference.Options{ReleaseTimeout: 4 * time.Second})
			s.onRenew = tc.renew
			l := w.take(e, "k", nil)
			time.Sleep(10*time.Second + time.Millisecond)
			if s.count("renew") != 1 {
				t.Fatal("no renewal is under way")
			}
			begin := time.Now()
			w.want(l.Release(w.Context()), nil)
			if d := time.Since(begin); d != tc.waits {
				t.Errorf("%s: waited %v for the renewal, want %v", name, d, tc.waits)
			}
			time.Sleep(time.Minute)
			if n := s.count("renew"); n != 1 {
				t.Errorf("%s: %d renewals", name, n)
			}
		})
	}
}

// A lease lost by its own deadline frees what it left, once, by owner.
func TestReleaseAfterLossDeletesOnceAtMost(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		s.onRelease = unavailable
		l := w.take(e, "k", &reference.AcquireOptions{Renew: lockspec.RenewManual})
		<-l.Done()
		for range 3 {
			w.want(l.Release(w.Context()), lockspec.ErrLost)
		}
		if n := s.count("release"); n != 1 {
			t.Errorf("%d deletes", n)
		}
	})
}

// The service says that the owner is no holder although its time is not up.
func TestReleaseFindsTheLockGone(t *testing.T) {
	bubble(t, func(w *world) {
		e, _ := w.node(nil)
		l := w.take(e, "k", nil)
		w.store.Delete("k")
		err := l.Release(w.Context())
		if lossReason(err) != reference.Expired {
			t.Errorf("got %v", err)
		}
	})
}

func TestB10_DoReleases(t *testing.T) {
	why := errors.New("work failed")
	for name, tc := range map[string]struct {
		f    func(context.Context, *reference.Lease) error
		want error
	}{
		"return": {func(context.Context, *reference.Lease) error { return nil }, nil},
		"error":  {func(context.Context, *reference.Lease) error { return why }, why},
		"panic":  {func(context.Context, *reference.Lease) error { panic(why) }, nil},
		"goexit": {func(context.Context, *reference.Lease) error { runtime.Goexit(); return nil }, nil},
	} {
		bubble(t, func(w *world) {
			e, _ := w.node(nil)
			done := make(chan any, 1)
			var err error
			var l *reference.Lease
			go func() {
				defer func() { done <- recover() }()
				err = e.Do(w.Context(), "k", func(ctx context.Context, got *reference.Lease) error {
					if l = got; ctx.Err() != nil || !l.Held() || w.free("k") {
						t.Errorf("%s: not held inside", name)
					}
					return tc.f(ctx, l)
				}, nil)
			}()
			if v := <-done; (v != nil) != (name == "panic") {
				t.Errorf("%s: recovered %v", name, v)
			}
			w.want(err, tc.want)
			w.want(l.Err(), reference.ErrReleased)
			if !w.free("k") {
				t.Errorf("%s: not released", name)
			}
		})
	}
}

func TestDoTellsOfLossAndOfBusy(t *testing.T) {
	bubble(t, func(w *world) {
		e, _ := w.node(nil)
		err := e.Do(w.Context(), "k", func(ctx context.Context, l *reference.Lease) error {
			w.store.Delete("k")
			<-ctx.Done()
			w.want(context.Cause(ctx), lockspec.ErrLost)
			return nil
		}, nil)
		w.want(err, lockspec.ErrLost)
		other, _ := w.node(nil)
		w.take(other, "k", nil)
		err = e.Do(w.Context(), "k", func(context.Context, *reference.Lease) error {
			t.Error("ran without the lock")
			return nil
		}, &reference.AcquireOptions{Wait: time.Second})
		w.want(err, lockspec.ErrTimeout)
	})
}

func TestB11_CloseEndsWaitsAndReleases(t *testing.T) {
	bubble(t, func(w *world) {
		other, _ := w.node(nil)
		w.take(other, "taken", nil)
		e, s := w.node(nil)
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			g, err := s.Backend.Attempt(ctx, c)
			if c.Key == "slow" {
				time.Sleep(2 * time.Second)
			}
			return g, err
		}
		held := w.take(e, "held", nil)
		var all sync.WaitGroup
		for _, key := range []string{"taken", "taken", "slow"} {
			all.Go(func() {
				_, err := e.Acquire(w.Context(), key, nil)
				w.want(err, reference.ErrClosed)
			})
		}
		time.Sleep(time.Second)
		begin := time.Now()
		for range 2 {
			w.want(e.Close(), nil)
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("took %v", d)
		}
		all.Wait()
		w.want(held.Err(), reference.ErrReleased)
		w.want(held.Release(w.Context()), nil)
		_, err := e.TryAcquire(w.Context(), "k", nil)
		w.want(err, reference.ErrClosed)
		w.want(err, lockspec.ErrUnavailable)
		synctest.Wait()
		if !w.free("held") || !w.free("slow") {
			t.Error("a key is left")
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(&reference.Options{ReleaseTimeout: time.Second})
		never := make(chan struct{})
		defer close(never)
		s.onAttempt = func(context.Context, reference.Claim) (reference.Grant, error) {
			<-never
			return reference.Grant{}, errFlaky
		}
		go e.TryAcquire(w.Context(), "k", nil)
		synctest.Wait()
		begin := time.Now()
		e.Close()
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("took %v", d)
		}
	})
}
