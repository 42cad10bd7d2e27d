// Package broken holds deliberately wrong locks. Each is a small named
// variation of a correct one, so that the suite can be seen to catch it, for
// the right reason.
package broken

import (
	"context"
	"fmt"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// Lock is one line of the table of broken locks.
type Lock struct {
	Name  string
	Means string // what is wrong with it
	// Wrap breaks a correct backend.
	Wrap func(reference.Backend) reference.Backend
}

// locks is the table of broken locks.
var locks = []Lock{
	{"release-without-owner-check", "a release deletes the key, whoever holds it", withoutOwnerCheck},
}

// Locks is the table of broken locks.
func Locks() []Lock { return append([]Lock(nil), locks...) }

// Find is the broken lock of the name.
func Find(name string) (Lock, error) {
	for _, l := range locks {
		if l.Name == name {
			return l, nil
		}
	}
	return Lock{}, fmt.Errorf("%w: no broken lock is named %q", lockspec.ErrConfig, name)
}

// Deleter is the power of a backend to free a key whoever holds it: a plain
// DEL.
type Deleter interface {
	Delete(ctx context.Context, key string) error
}

type deleting struct {
	reference.Backend
	del Deleter
}

// withoutOwnerCheck is a release by a plain delete: the oldest bug of Redis
// locks. The lock works until a holder is late.
func withoutOwnerCheck(b reference.Backend) reference.Backend {
	return deleting{b, b.(Deleter)}
}

func (d deleting) Release(ctx context.Context, c reference.Claim) error {
	return d.del.Delete(ctx, c.Key)
}
