package broken

import (
	"context"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// Locks whose releases are wrong.
func releases() []Lock {
	return []Lock{
		{
			Name: "release-without-owner-check", Means: "a release deletes the key, whoever holds it",
			Reports: []string{"laravel/framework#26213", "lukas-krecan/ShedLock#1986", "NoneGG/aredis#119"},
			Caught:  []Finding{{"B04", "ownership", "late-release-freed-successor"}},
			Also: map[string]string{
				"B07": "the retry of a release whose reply was lost deletes too",
				"X02": "a holder that was stopped past its lease deletes its successor's key",
			},
			Backend: func(b reference.Backend) reference.Backend { return withRelease(b, deletes(b)) },
		},
		{
			Name: "release-looks-then-deletes", Means: "a release asks who holds the key, and deletes it in a second step",
			Reports: []string{"redis/redis-py#489"},
			Caught:  []Finding{{"B04", "ownership", "slow-release-freed-successor"}},
			Backend: func(b reference.Backend) reference.Backend { return withRelease(b, looksThenDeletes(b)) },
		},
		{
			Name: "release-swallows-failure", Means: "a release that got no answer is told as done",
			Reports: []string{"hashicorp/terraform#22174", "apache/curator#1006", "go-redsync/redsync#81"},
			Caught:  []Finding{{"B12", "contract", "unconfirmed-ok"}},
			Backend: func(b reference.Backend) reference.Backend { return withRelease(b, swallows(b)) },
		},
	}
}

// Deleter is the power of a backend to free a key whoever holds it: a plain
// DEL.
type Deleter interface {
	Delete(ctx context.Context, key string) error
}

// Looker is the power of a backend to tell who holds a key: a plain GET.
type Looker interface {
	Owner(ctx context.Context, key string) (string, error)
}

type release func(context.Context, reference.Claim) error

type releasing struct {
	reference.Backend
	by release
}

func withRelease(b reference.Backend, by release) reference.Backend { return releasing{b, by} }

func (r releasing) Release(ctx context.Context, c reference.Claim) error { return r.by(ctx, c) }

// deletes is the oldest bug of Redis locks. The lock works until a holder is
// late.
func deletes(b reference.Backend) release {
	return func(ctx context.Context, c reference.Claim) error { return b.(Deleter).Delete(ctx, c.Key) }
}

// looksThenDeletes checks the owner as it should, but not in the step that
// frees the key: between the two the lease may run out.
func looksThenDeletes(b reference.Backend) release {
	return func(ctx context.Context, c reference.Claim) error {
		owner, err := b.(Looker).Owner(ctx, c.Key)
		switch {
		case err != nil:
			return err
		case owner != c.Owner:
			return fmt.Errorf("%w: somebody else's, or nobody's", lockspec.ErrNotHeld)
		}
		return b.(Deleter).Delete(ctx, c.Key)
	}
}

// patience is how long it waits for an answer that it does not look at.
const patience = 250 * time.Millisecond

// swallows asks once and looks at no answer, as a release in a deferred call
// does whose error nobody reads.
func swallows(b reference.Backend) release {
	return func(ctx context.Context, c reference.Claim) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_ = b.Release(ctx, c)
		return nil
	}
}
