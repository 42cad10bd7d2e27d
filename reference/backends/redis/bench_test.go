package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/reference"
)

// BenchmarkAcquireRelease compares the engine without fencing with the bare
// commands on the same kind of connection: SET NX PX and a deleting script.
func BenchmarkAcquireRelease(b *testing.B) {
	s, err := containers.Redis(b.Context(), nil)
	if err != nil {
		b.Skip(err)
	}
	defer s.Close()
	var keys atomic.Int64
	cycle := func(b *testing.B, do func(ctx context.Context, key string) error) {
		for _, clients := range []int{1, 16} {
			b.Run(fmt.Sprint(clients), func(b *testing.B) {
				b.SetParallelism(clients) // of each processor
				b.RunParallel(func(p *testing.PB) {
					key := fmt.Sprint(keys.Add(1))
					for p.Next() {
						if err := do(context.Background(), key); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
	b.Run("bare", func(b *testing.B) {
		c := goredis.NewClient(&goredis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true, PoolSize: DefaultPoolSize})
		defer c.Close()
		cycle(b, func(ctx context.Context, key string) error {
			if err := c.SetNX(ctx, key, "owner", 10*time.Second).Err(); err != nil {
				return err
			}
			err := c.EvalSha(ctx, releaseScript.sum, []string{key}, "owner").Err()
			if goredis.HasErrorPrefix(err, "NOSCRIPT") {
				err = c.Eval(ctx, releaseScript.text, []string{key}, "owner").Err()
			}
			return err
		})
	})
	for _, o := range []*Options{{Unfenced: true}, {}} {
		name := "engine"
		if !o.Unfenced {
			name = "engine, fenced"
		}
		b.Run(name, func(b *testing.B) {
			way, err := New(s.Addr(), o)
			if err != nil {
				b.Fatal(err)
			}
			e, err := reference.New(way, &reference.Options{Lease: 10 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			cycle(b, func(ctx context.Context, key string) error {
				l, err := e.TryAcquire(ctx, key, nil)
				if err != nil {
					return err
				}
				return l.Release(ctx)
			})
		})
	}
}
