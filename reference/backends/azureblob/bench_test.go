package azureblob

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/lockcheck/lockcheck/reference"
)

// BenchmarkAcquireRelease compares the engine with the bare calls of the SDK on
// the same kind of transport: a lease of a blob that is there, acquired and
// released.
func BenchmarkAcquireRelease(b *testing.B) {
	l := own(b)
	cycle := func(b *testing.B, do func(ctx context.Context, key string) error) {
		for _, clients := range []int{1, 16} {
			b.Run(fmt.Sprint(clients), func(b *testing.B) {
				b.SetParallelism(clients) // of each processor
				b.RunParallel(func(p *testing.PB) {
					key := newKey("bench")
					if err := do(b.Context(), key); err != nil { // makes the guard
						b.Error(err)
						return
					}
					for p.Next() {
						if err := do(b.Context(), key); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
	b.Run("bare", func(b *testing.B) {
		o := account()
		way := newTransport()
		defer way.CloseIdleConnections()
		c, err := dial(l.at(l.Server.Addr(), "locks"), &o, http.RoundTripper(way))
		if err != nil {
			b.Fatal(err)
		}
		cycle(b, func(ctx context.Context, key string) error {
			at, err := lease.NewBlobClient(c.NewBlobClient(key), nil)
			if err != nil {
				return err
			}
			if _, err := at.AcquireLease(ctx, int32(LeaseMin/time.Second), nil); err != nil {
				if _, err := c.NewBlockBlobClient(key).UploadBuffer(ctx, nil, nil); err != nil {
					return err
				}
				if _, err := at.AcquireLease(ctx, int32(LeaseMin/time.Second), nil); err != nil {
					return err
				}
			}
			_, err = at.ReleaseLease(ctx, nil)
			return err
		})
	})
	for _, fenced := range []bool{false, true} {
		name := "engine"
		if fenced {
			name = "engine, fenced"
		}
		b.Run(name, func(b *testing.B) {
			e, err := reference.New(l.straight(b, func(o *Options) { o.Unfenced = !fenced }), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			cycle(b, func(ctx context.Context, key string) error {
				h, err := e.TryAcquire(ctx, key, nil)
				if err != nil {
					return err
				}
				return h.Release(ctx)
			})
		})
	}
}
