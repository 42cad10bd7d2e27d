package reference_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
)

func TestReadersShareAndWritersExclude(t *testing.T) {
	bubble(t, func(w *world) {
		node := func() *reference.Engine {
			return w.engine(w.store.Backend(&memory.BackendOptions{Shared: true}), nil)
		}
		read := &reference.AcquireOptions{Mode: lockspec.Read}
		a, b, c := node(), node(), node()
		r1, r2 := w.take(a, "k", read), w.take(b, "k", read)
		_, err := c.TryAcquire(w.Context(), "k", nil)
		w.want(err, lockspec.ErrBusy)
		w.take(c, "k", read).Release(w.Context()) // a try keeps nobody out
		var all sync.WaitGroup
		all.Go(func() {
			l, err := c.Acquire(w.Context(), "k", nil)
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Second)
			l.Release(w.Context())
		})
		time.Sleep(10 * time.Second)
		_, err = c.TryAcquire(w.Context(), "k", read)
		w.want(err, lockspec.ErrBusy) // the writer waits
		r1.Release(w.Context())
		r2.Release(w.Context())
		time.Sleep(time.Second) // a poll
		_, err = a.TryAcquire(w.Context(), "k", read)
		w.want(err, lockspec.ErrBusy)
		all.Wait()
		w.take(a, "k", read)
	})
}

func TestPermits(t *testing.T) {
	bubble(t, func(w *world) {
		b := w.store.Backend(&memory.BackendOptions{Capacity: 3})
		e := w.engine(b, nil)
		if d := e.Client().(lockspec.Describer).Describe(); !d.Claims(lockspec.Permits) || d.Capacity != 3 {
			t.Errorf("described as %+v", d)
		}
		two := w.take(e, "k", &reference.AcquireOptions{Count: 2})
		w.take(e, "k", nil)
		_, err := e.TryAcquire(w.Context(), "k", nil)
		w.want(err, lockspec.ErrBusy)
		_, err = e.TryAcquire(w.Context(), "k", &reference.AcquireOptions{Count: 4})
		w.want(err, lockspec.ErrUnsupported)
		two.Release(w.Context())
		w.take(e, "k", &reference.AcquireOptions{Count: 2})
	})
}

func TestReentrantClient(t *testing.T) {
	bubble(t, func(w *world) {
		e := w.engine(w.spy(), &reference.Options{Reentrant: true})
		a, b := e.Client(), e.Client()
		if !a.(lockspec.Describer).Describe().Claims(lockspec.Reentrant) {
			t.Error("not claimed")
		}
		take := func() lockspec.Lease {
			l, err := a.Acquire(w.Context(), lockspec.Request{Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		busy := func() {
			t.Helper()
			_, err := b.Acquire(w.Context(), lockspec.Request{Key: "k"})
			w.want(err, lockspec.ErrBusy)
		}
		outer := take()
		time.Sleep(5 * time.Second)
		inner := take()
		if got := w.store.Inspect("k")[0].Left; got != 30*time.Second {
			t.Errorf("an inner acquire left the lease at %v", got)
		}
		if outer.(lockspec.Fenced).Token() != inner.(lockspec.Fenced).Token() {
			t.Error("two tokens in one tenure")
		}
		busy()
		for range 2 {
			w.want(outer.Release(w.Context()), nil)
			busy()
		}
		again := take()
		w.want(inner.Release(w.Context()), nil)
		busy()
		w.want(again.Release(w.Context()), nil)
		if !w.free("k") {
			t.Error("not free after the last release")
		}

		outer, inner = take(), take()
		w.store.Delete("k")
		<-outer.(lockspec.Notifier).Lost()
		w.want(inner.Release(w.Context()), lockspec.ErrLost)
		next := take() // a new tenure, though the old is not released
		w.want(outer.Release(w.Context()), lockspec.ErrLost)
		busy()
		w.want(next.Release(w.Context()), nil)
		synctest.Wait()
		if !w.free("k") {
			t.Error("not free")
		}
	})
}
