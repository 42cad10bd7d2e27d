package contract_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// redRelease are the faults of group B.
func redRelease() []red {
	return []red{
		{"B01", "a release is forgotten", "contract/free-key-refused", backendBy(forgetsRelease), nil},
		{"B02", "a second release deletes", "ownership/second-release-freed-successor", leaseBy(func(l *lab, r lockspec.Request, right powers) holding {
			var released atomic.Int32
			return holding{powers: right, release: func(ctx context.Context) error {
				if released.Add(1) > 2 {
					_ = l.Evict(ctx, r.Key)
				}
				return right.Release(ctx)
			}}
		}), nil},
		{"B02", "a second release is an error", "contract/outcome", leaseBy(func(_ *lab, _ lockspec.Request, right powers) holding {
			var released atomic.Int32
			return holding{powers: right, release: func(ctx context.Context) error {
				if released.Add(1) > 1 {
					return lockspec.ErrNotHeld
				}
				return right.Release(ctx)
			}}
		}), nil},
		{"B03", "each of many releases asks", "contract/deletes", leaseBy(func(l *lab, r lockspec.Request, right powers) holding {
			return holding{powers: right, release: func(ctx context.Context) error {
				_ = l.backend().Release(ctx, reference.Claim{Key: r.Key, Owner: "me"})
				return right.Release(ctx)
			}}
		}), nil},
		{"B04", "a release deletes, whoever holds", "ownership/late-release-freed-successor", backendBy(deletes(1)), nil},
		{"B06", "a release of what ran out is ok", "contract/outcome", leaseBy(func(_ *lab, _ lockspec.Request, right powers) holding {
			return holding{powers: right, release: func(ctx context.Context) error {
				if err := right.Release(ctx); !errors.Is(err, lockspec.ErrLost) {
					return err
				}
				return nil
			}}
		}), nil},
		{"B07", "the retry of a release deletes", "ownership/retry-freed-successor", backendBy(deletes(2)), nil},
		{"B08", "renewals go on after a release", "residue/renews-after-release", leaseBy(func(l *lab, r lockspec.Request, right powers) holding {
			return holding{powers: right, release: func(ctx context.Context) error {
				err := right.Release(ctx)
				time.AfterFunc(labLease/3, func() {
					_ = l.backend().Renew(context.Background(), reference.Claim{Key: r.Key, Owner: "me", Lease: labLease})
				})
				return err
			}}
		}), nil},
		{"B09", "a released handle says held", "contract/outcome", leaseBy(func(_ *lab, _ lockspec.Request, right powers) holding {
			return holding{powers: right, held: func(context.Context) error { return nil }}
		}), nil},
		{"B12", "a connection with a lock goes back to the pool", "liveness/takeover", session(backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{release: func(ctx context.Context, c reference.Claim) error {
				err := b.Release(ctx, c)
				if err != nil {
					_ = l.Seed(context.Background(), c.Key, "the pool", time.Minute)
				}
				return err
			}}
		})), nil},
		{"B13", "the service keeps a key for longer than it says", "liveness/takeover", nil, longerProcesses},
		{"A13", "the service keeps a dead process's key for longer than it says", "liveness/takeover", nil, longerProcesses},
	}
}

// releasesAll releases all that the process holds.
func releasesAll(_ *lab, b reference.Backend) spoiled {
	var mu sync.Mutex
	var held []reference.Claim
	return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
		g, err := b.Attempt(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			held = append(held, c)
		}
		return g, err
	}, release: func(ctx context.Context, c reference.Claim) error {
		mu.Lock()
		defer mu.Unlock()
		for _, h := range held {
			_ = b.Release(ctx, h)
		}
		held = nil
		return nil
	}}
}

func forgetsRelease(*lab, reference.Backend) spoiled {
	return spoiled{release: func(context.Context, reference.Claim) error { return nil }}
}

// deletes releases whoever holds, from the owner's n-th try on.
func deletes(n int) func(*lab, reference.Backend) spoiled {
	return func(l *lab, b reference.Backend) spoiled {
		var mu sync.Mutex
		tries := map[string]int{}
		return spoiled{release: func(ctx context.Context, c reference.Claim) error {
			mu.Lock()
			tries[c.Owner]++
			again := tries[c.Owner] >= n
			mu.Unlock()
			if again {
				return l.Evict(ctx, c.Key)
			}
			return b.Release(ctx, c)
		}}
	}
}

// session makes the lock say that sessions hold its keys.
func session(make func(*lab, string) fault) func(*lab, string) fault {
	return func(l *lab, id string) fault {
		f := make(l, id)
		f.claims = sessionClass
		return f
	}
}

func sessionClass(d *lockspec.Description) {
	d.Class, d.Hazards = lockspec.Session, nil
	d.Bounds.Takeover = 2 * labLease
}
