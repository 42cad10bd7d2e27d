package reference

import (
	"context"
	"sync"

	"github.com/lockcheck/lockcheck/lockspec"
)

// reentrant is a client that counts: what it holds exclusively it is granted
// again, as one more part of the same tenure.
type reentrant struct {
	client

	mu     sync.Mutex
	groups map[string]*group
}

// group is one tenure and how many parts of it are not released.
type group struct {
	l     *Lease
	parts int
}

// Acquire joins the tenure of a key that is held, and renews it: a lease is
// counted from the send of the request that took it, also an inner one.
func (r *reentrant) Acquire(ctx context.Context, q lockspec.Request) (lockspec.Lease, error) {
	if g := r.join(q); g != nil {
		_, stamp := r.e.reading(g.l.renewals != nil)
		part := r.part(q.Key, g, stamp)
		err := ctx.Err()
		if err == nil && r.e.timing.Expires() {
			err = g.l.Renew(ctx, 0)
		}
		if err != nil {
			part.Release(ctx)
			return nil, err
		}
		return part, nil
	}
	l, err := r.take(ctx, q)
	if err != nil {
		return nil, err
	}
	g := &group{l, 1}
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.Mode != lockspec.Read {
		r.groups[q.Key] = g
	}
	return r.part(q.Key, g, l.sent), nil
}

// join adds a part to the tenure that the request may be part of; nil: none.
func (r *reentrant) join(q lockspec.Request) *group {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.groups[q.Key]
	if g == nil || !g.l.Held() || q.Count > 1 {
		return nil
	}
	g.parts++
	return g
}

// leave takes a part out, and says whether it was the last.
func (r *reentrant) leave(key string, g *group) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.parts--
	if g.parts == 0 && r.groups[key] == g {
		delete(r.groups, key)
	}
	return g.parts == 0
}

// part is one lease of a group. Its release answers what the tenure is, and
// frees the key if it is the last.
func (r *reentrant) part(key string, g *group, sent int64) lockspec.Lease {
	var once sync.Once
	var answer error
	return r.dress(hold{g.l, sent, func(ctx context.Context) error {
		once.Do(func() {
			if r.leave(key, g) {
				answer = g.l.Release(ctx)
			} else {
				answer = g.l.Err()
			}
		})
		return answer
	}})
}
