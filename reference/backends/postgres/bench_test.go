package postgres

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/reference"
)

// BenchmarkAcquireRelease compares the engine without fencing with the bare
// calls, prepared, each client on a connection of its own.
func BenchmarkAcquireRelease(b *testing.B) {
	s, err := containers.Postgres(b.Context(), nil)
	if err != nil {
		b.Skip(err)
	}
	defer s.Close()
	var keys atomic.Int64
	cycle := func(b *testing.B, client func() (func(ctx context.Context) error, func())) {
		for _, clients := range []int{1, 16} {
			b.Run(fmt.Sprint(clients), func(b *testing.B) {
				ready := make(chan func(context.Context) error, clients*runtime.GOMAXPROCS(0))
				for range cap(ready) {
					do, end := client()
					defer end()
					ready <- do
				}
				b.ResetTimer()
				b.SetParallelism(clients) // of each processor
				b.RunParallel(func(p *testing.PB) {
					do := <-ready
					for p.Next() {
						if err := do(b.Context()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
	b.Run("bare", func(b *testing.B) {
		cycle(b, func() (func(context.Context) error, func()) {
			c, err := pgconn.Connect(b.Context(), at(s.Addr()))
			if err != nil {
				b.Error(err)
				return func(context.Context) error { return err }, func() {}
			}
			_, err1 := c.Prepare(b.Context(), "lock", "SELECT pg_try_advisory_lock($1)", nil)
			_, err2 := c.Prepare(b.Context(), "unlock", releaseSQL, nil)
			key := [][]byte{[]byte(strconv.FormatInt(keys.Add(1), 10))}
			return func(ctx context.Context) error {
				if err1 != nil || err2 != nil {
					return fmt.Errorf("%w %w", err1, err2)
				}
				if r := c.ExecPrepared(ctx, "lock", key, nil, nil).Read(); r.Err != nil {
					return r.Err
				}
				return c.ExecPrepared(ctx, "unlock", key, nil, nil).Read().Err
			}, func() { _ = c.Close(context.Background()) }
		})
	})
	for _, o := range []*Options{{Unfenced: true}, {}} {
		name := "engine"
		if !o.Unfenced {
			name = "engine, fenced"
		}
		b.Run(name, func(b *testing.B) {
			way, err := New(at(s.Addr()), o)
			if err != nil {
				b.Fatal(err)
			}
			e, err := reference.New(way, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			cycle(b, func() (func(context.Context) error, func()) {
				key := fmt.Sprint(keys.Add(1))
				return func(ctx context.Context) error {
					l, err := e.TryAcquire(ctx, key, nil)
					if err != nil {
						return err
					}
					return l.Release(ctx)
				}, func() {}
			})
		})
	}
}
