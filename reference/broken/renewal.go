package broken

import (
	"context"
	"sync"

	"github.com/lockcheck/lockcheck/reference"
)

// Locks whose renewals end. Each goes on telling its holder that it was
// renewed: what ends is what is sent.
func renewals() []Lock {
	return []Lock{
		{
			Name: "renewal-stops-after-12", Means: "a tenure is renewed twelve times, four leases, and then no more",
			Reports: []string{"awslabs/amazon-dynamodb-lock-client#29", "redisson/redisson#3919"},
			Caught:  []Finding{{"E01", "overlap", "entitled"}},
			Backend: func(b reference.Backend) reference.Backend {
				return &renewing{Backend: b, sends: func(_, renewal int) bool { return renewal <= 12 }}
			},
		},
		{
			Name: "renewal-of-first-tenure-only", Means: "a key is renewed the first time that a process holds it, and never again",
			Reports: []string{"redisson/redisson#3194"},
			Caught:  []Finding{{"E01", "overlap", "entitled"}},
			Also: map[string]string{
				"E03": "its second tenure hears of no loss, because it asks no more",
				"E07": "a tenure after a loss is its second",
			},
			Backend: func(b reference.Backend) reference.Backend {
				return &renewing{Backend: b, sends: func(tenure, _ int) bool { return tenure == 1 }}
			},
		},
	}
}

// renewing is a backend that does not send every renewal which it says it sent.
type renewing struct {
	reference.Backend
	sends func(tenure, renewal int) bool // the n-th tenure of a key in this process, its n-th renewal

	mu     sync.Mutex
	keys   map[string]int    // tenures so far
	owners map[string]*count // of a tenure, by its owner
}

type count struct{ tenure, renewals int }

func (r *renewing) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	g, err := r.Backend.Attempt(ctx, c)
	if err == nil {
		r.granted(c)
	}
	return g, err
}

func (r *renewing) granted(c reference.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owners == nil {
		r.keys, r.owners = map[string]int{}, map[string]*count{}
	}
	if r.owners[c.Owner] == nil {
		r.keys[c.Key]++
		r.owners[c.Owner] = &count{tenure: r.keys[c.Key]}
	}
}

func (r *renewing) Renew(ctx context.Context, c reference.Claim) error {
	if !r.next(c) {
		return nil
	}
	return r.Backend.Renew(ctx, c)
}

func (r *renewing) next(c reference.Claim) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.owners[c.Owner]
	if n == nil {
		return true
	}
	n.renewals++
	return r.sends(n.tenure, n.renewals)
}

func (r *renewing) Release(ctx context.Context, c reference.Claim) error {
	err := r.Backend.Release(ctx, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, c.Owner)
	return err
}
