package reference_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

func TestC04_CancelAfterAcquireDoesNotTouchTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		e, _ := w.node(nil)
		ctx, cancel := context.WithCancel(w.Context())
		l, err := e.Acquire(ctx, "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(3 * time.Minute) // C07: six leases
		if err := l.Err(); err != nil || l.Context().Err() != nil || w.free("k") {
			t.Errorf("after a cancel: %v, context %v, free %v", err, l.Context().Err(), w.free("k"))
		}
		w.want(l.Release(ctx), nil) // B05: a dead context still releases
		if !w.free("k") {
			t.Error("not released")
		}
	})
}

func TestC05_DeadlineOfAcquireDoesNotBoundTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		e, _ := w.node(nil)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		l, err := e.Acquire(ctx, "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := l.Context().Deadline(); ok {
			t.Errorf("the lease's context has a deadline, %v", d)
		}
		<-ctx.Done()
		time.Sleep(time.Minute)
		if !l.Held() {
			t.Errorf("ended: %v", l.Err())
		}
	})
}

func TestC06_ValuesOfAcquireAreVisible(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		type key struct{}
		var seen any
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			seen = ctx.Value(key{})
			return s.Backend.Attempt(ctx, c)
		}
		l, err := e.Acquire(context.WithValue(w.Context(), key{}, 7), "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		if l.Context().Value(key{}) != 7 || seen != 7 {
			t.Errorf("lease sees %v, backend %v", l.Context().Value(key{}), seen)
		}
	})
}

func TestC08_DoneContextAndErrAgree(t *testing.T) {
	for name, end := range map[string]func(w *world, l *reference.Lease){
		"release": func(w *world, l *reference.Lease) { l.Release(w.Context()) },
		"loss":    func(w *world, l *reference.Lease) { w.store.Delete("k") },
	} {
		bubble(t, func(w *world) {
			e, _ := w.node(nil)
			l := w.take(e, "k", nil)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for l.Held() {
						time.Sleep(time.Millisecond)
					}
					<-l.Done()
					if l.Err() == nil || context.Cause(l.Context()) != l.Err() || l.Context().Err() != context.Canceled {
						t.Errorf("%s: err %v, cause %v", name, l.Err(), context.Cause(l.Context()))
					}
				})
			}
			time.Sleep(time.Second)
			end(w, l)
			all.Wait()
		})
	}
}

func TestC10_BindTellsWhatCameFirst(t *testing.T) {
	why := errors.New("client went away")
	type key struct{}
	for name, tc := range map[string]struct {
		end  func(w *world, l *reference.Lease, request context.CancelCauseFunc)
		want error
	}{
		"request": {func(_ *world, _ *reference.Lease, request context.CancelCauseFunc) { request(why) }, why},
		"loss":    {func(w *world, _ *reference.Lease, _ context.CancelCauseFunc) { w.store.Delete("k") }, lockspec.ErrLost},
		"release": {func(w *world, l *reference.Lease, _ context.CancelCauseFunc) { l.Release(w.Context()) }, reference.ErrReleased},
	} {
		bubble(t, func(w *world) {
			e, _ := w.node(nil)
			l := w.take(e, "k", nil)
			request, cancel := context.WithCancelCause(context.WithValue(w.Context(), key{}, name))
			bound, unbind := l.Bind(request)
			if bound.Err() != nil || bound.Value(key{}) != name {
				t.Errorf("%s: bound context: %v", name, bound)
			}
			tc.end(w, l, cancel)
			<-bound.Done()
			w.want(context.Cause(bound), tc.want)
			unbind()
			cancel(nil)
			l.Release(w.Context())
			w.want(context.Cause(bound), tc.want)
		})
	}
}

func TestC11_NothingLeaks(t *testing.T) {
	// A bubble fails when a goroutine is left; the fake clock tells of timers.
	f := fakeclock.NewFake(time.Now())
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t}
		n := 0
		s := &spy{onAttempt: func(context.Context, reference.Claim) (reference.Grant, error) {
			switch n++; n % 4 {
			case 0:
				return reference.Grant{}, lockspec.ErrBusy
			case 1:
				panic("broken")
			case 2:
				return reference.Grant{}, lockspec.ErrConfig
			}
			return reference.Grant{Token: int64(n)}, nil
		}, onRelease: func(context.Context, reference.Claim) error { return nil }}
		s.Backend = memoryOn(f)
		e := w.engine(s, &reference.Options{Clock: f})
		for i := range 1000 {
			ctx, cancel := context.WithCancel(w.Context())
			if i%7 == 0 {
				cancel()
			}
			l, err := e.TryAcquire(ctx, "k", &reference.AcquireOptions{MaxHold: time.Hour})
			if err == nil {
				bound, unbind := l.Bind(ctx)
				if i%3 == 0 {
					l.Release(ctx)
				}
				unbind()
				<-bound.Done()
				l.Release(ctx)
			}
			cancel()
		}
		synctest.Wait()
		if d, ok := f.Next(); ok {
			t.Errorf("a timer is left, due in %v", d)
		}
		if q, l := e.Kept(); q != 0 || l != 0 {
			t.Errorf("kept: %d queues, %d leases", q, l)
		}
	})
}
