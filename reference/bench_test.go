package reference_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
)

func newEngine(tb testing.TB, b reference.Backend) *reference.Engine {
	tb.Helper()
	e, err := reference.New(b, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	return e
}

func cycle(tb testing.TB, ctx context.Context, e *reference.Engine, key string) {
	l, err := e.TryAcquire(ctx, key, nil)
	if err != nil {
		tb.Fatal(err)
	}
	if err := l.Release(ctx); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkUncontended(b *testing.B) {
	e := newEngine(b, memory.New(nil).Backend(nil))
	b.ReportAllocs()
	for b.Loop() {
		cycle(b, b.Context(), e, "k")
	}
}

func BenchmarkUncontendedTCP(b *testing.B) {
	data, _, err := memory.Listen()
	if err != nil {
		b.Fatal(err)
	}
	go memory.Serve(b.Context(), data, nil, nil)
	e := newEngine(b, memory.Dial(data.Addr().String(), nil))
	b.ReportAllocs()
	for b.Loop() {
		cycle(b, b.Context(), e, "k")
	}
}

// One operation is one tenure handed from waiter to waiter.
func BenchmarkLocalWaiters(b *testing.B) {
	for _, n := range []int{16, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := newEngine(b, memory.New(nil).Backend(nil))
			turns := make(chan struct{})
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					for range turns {
						l, err := e.Acquire(b.Context(), "k", nil)
						if err != nil {
							b.Error(err)
							return
						}
						l.Release(b.Context())
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				turns <- struct{}{}
			}
			close(turns)
			all.Wait()
		})
	}
}

// One operation is 100,000 keys that were held and are idle. A second round of
// them takes no more memory than the first has left, which is the runtime's own.
func BenchmarkIdleKeys(b *testing.B) {
	const keys = 100_000
	store := memory.New(nil)
	e := newEngine(b, store.Backend(nil))
	round := func(n int) int64 {
		for i := range keys {
			cycle(b, b.Context(), e, fmt.Sprint(n, i))
		}
		held := make([]*reference.Lease, keys/20)
		for i := range held {
			l, err := e.Acquire(b.Context(), fmt.Sprint("held", n, i), nil)
			if err != nil {
				b.Fatal(err)
			}
			held[i] = l
		}
		for _, l := range held {
			l.Release(b.Context())
		}
		clear(held)
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, n := round(0), 0
	for b.Loop() {
		n++
		left := round(n) - before
		b.ReportMetric(float64(left), "bytes-left")
		if q, l := e.Kept(); q != 0 || l != 0 || store.Len() != 0 || left > 256<<10 {
			b.Errorf("kept: %d queues, %d leases, %d keys in the store, %d bytes", q, l, store.Len(), left)
		}
	}
}
