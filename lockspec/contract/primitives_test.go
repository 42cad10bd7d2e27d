package contract_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
	"github.com/lockcheck/lockcheck/reports/result"
)

// offers are the locks that have what a case of the group needs.
var offers = map[string]fault{
	"J03": {offers: memory.BackendOptions{Shared: true}},
	"J04": {offers: memory.BackendOptions{Shared: true}},
	"J05": {offers: memory.BackendOptions{Capacity: 3}},
	"J07": {reentrant: true},
}

// offering adds what the case needs to the fault.
func offering(make func(*lab, string) fault) func(*lab, string) fault {
	return func(l *lab, id string) fault {
		l.fault = offers[id]
		f := make(l, id)
		f.offers, f.reentrant = offers[id].offers, offers[id].reentrant
		return f
	}
}

// redPrimitives has rows for every case of group J.
func redPrimitives() []red {
	return []red{
		{"J03", "a writer is admitted among readers", "overlap/", backendBy(func(_ *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				c.Mode = lockspec.Read
				return b.Attempt(ctx, c)
			}}
		}), nil},
		{"J03", "a reader is admitted beside a writer", "overlap/", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				g, err := b.Attempt(ctx, c)
				if err != nil && c.Mode == lockspec.Read {
					return reference.Grant{Token: time.Now().UnixMicro(), Lease: c.Lease}, nil
				}
				return g, err
			}}
		}), nil},
		{"J03", "readers exclude each other", "contract/free-key-refused", backendBy(func(_ *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				c.Mode = lockspec.Exclusive
				return b.Attempt(ctx, c)
			}}
		}), nil},
		{"J04", "readers enter while a writer waits", "liveness/writer-starved", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				if who, _ := l.Inspect(ctx, c.Key); len(who) > 0 && c.Mode != lockspec.Read {
					return reference.Grant{}, lockspec.ErrBusy // the service never hears of the writer
				}
				return b.Attempt(ctx, c)
			}}
		}), nil},
		{"J05", "one permit too many is granted", "overlap/", backendBy(func(l *lab, _ reference.Backend) spoiled {
			more := memory.Dial(l.addr, &memory.BackendOptions{Capacity: 4})
			return spoiled{attempt: more.Attempt}
		}), nil},
		{"J05", "a request for all permits takes one", "overlap/", backendBy(func(_ *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				c.Count = 1
				return b.Attempt(ctx, c)
			}}
		}), nil},
		{"J05", "a permit comes back a hundred leases later", "liveness/takeover", backendBy(func(_ *lab, b reference.Backend) spoiled {
			return spoiled{attempt: keepsLonger(b)}
		}), nil},
		{"J07", "an inner release frees the key", "overlap/", leaseBy(func(l *lab, r lockspec.Request, right powers) holding {
			return holding{powers: right, release: func(ctx context.Context) error {
				_ = l.Evict(ctx, r.Key)
				return right.Release(ctx)
			}}
		}), nil},
		{"J07", "the last release frees nothing", "contract/free-key-refused", backendBy(forgetsRelease), nil},
		{"J07", "a holder is refused what it holds", "contract/not-reentrant", acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			held := map[string]bool{}
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				if held[r.Key] {
					return nil, lockspec.ErrBusy
				}
				l, err := next(ctx, r)
				held[r.Key] = err == nil
				return l, err
			}
		}), nil},
	}
}

// TestPrimitivesSeenRed: each fault comes to the finding that it should, and to
// none of another kind.
func TestPrimitivesSeenRed(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range redPrimitives() {
		seen[row.id] = true
		row.make = offering(row.make)
		t.Run(row.id+" "+row.fault, func(t *testing.T) {
			t.Parallel()
			if wrong := eventually(3, func() error { return row.seen(t) }); wrong != nil {
				t.Error(wrong)
			}
		})
	}
	for id := range offers {
		if !seen[id] {
			t.Errorf("case %s was never seen red", id)
		}
	}
}

// TestReferenceKeepsPrimitives: the memory backend with readers, permits and a
// reentrant engine keeps what it then claims, and everything else that a lock
// has to keep; without, the cases are unsupported by name.
func TestReferenceKeepsPrimitives(t *testing.T) {
	for id, offer := range offers {
		t.Run(id, func(t *testing.T) {
			h := newLab(t, offer)
			for open, tries := append(ofABCDG(), id), 3; len(open) > 0; tries-- {
				if tries == 0 {
					t.Fatalf("undecided three times: %v", open)
				}
				open = undecided(t, h, open, []string{"A03", "B12", "B13", "D15", "D17"})
			}
		})
	}
	t.Run("not claimed", func(t *testing.T) {
		r, err := check(t, newLab(t, fault{}), "J03", "J04", "J05", "J07")
		if err != nil {
			t.Fatal(err)
		}
		for id, word := range map[string]string{"J03": "shared", "J04": "shared", "J05": "permits", "J07": "reentrant"} {
			if c := caseOf(t, r, id); c.Status != result.Unsupported || !strings.Contains(c.Reason, word+" is not claimed") {
				t.Errorf("%s: %s: %s", id, c.Status, c.Reason)
			}
		}
	})
}
