package main

import (
	"context"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
)

// inside is the harness of a lock in this process: each node is an engine over
// one store, which the node's processes share as they would one of their own.
type inside struct {
	store *memory.Store
	lease time.Duration // that the cases will ask for
	offer offers
	nodes *engines
	asked *tally
}

type engines struct {
	mu sync.Mutex
	by map[string]*reference.Engine
}

func newInside(lease time.Duration, o offers) inside {
	return inside{memory.New(nil), lease, o, &engines{by: map[string]*reference.Engine{}}, &tally{}}
}

func (h inside) engine() (*reference.Engine, error) {
	b := h.store.Backend(&memory.BackendOptions{Shared: h.offer.shared, Capacity: h.offer.permits})
	return reference.New(tallied{b, h.asked}, &reference.Options{Lease: h.lease, Reentrant: h.offer.reentrant})
}

// Open implements contract.Harness.
func (h inside) Open(_ context.Context, node string) (lockspec.Client, error) {
	h.nodes.mu.Lock()
	defer h.nodes.mu.Unlock()
	e := h.nodes.by[node]
	if e == nil {
		var err error
		if e, err = h.engine(); err != nil {
			return nil, err
		}
		h.nodes.by[node] = e
	}
	return shared{e.Client()}, nil
}

// Describe implements contract.Harness.
func (h inside) Describe() lockspec.Description {
	e, err := h.engine()
	if err != nil {
		return lockspec.Description{Name: err.Error()}
	}
	defer e.Close()
	return e.Client().(lockspec.Describer).Describe()
}

// tally counts what the engines ask of the store.
type tally struct {
	mu sync.Mutex
	by map[[2]string]int // operation and key
}

func (t *tally) add(op, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[[2]string]int{}
	}
	t.by[[2]string{op, key}]++
}

// of counts what matches; empty words match all.
func (t *tally) of(op, key string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, times := range t.by {
		if (op == "" || op == k[0]) && (key == "" || key == k[1]) {
			n += times
		}
	}
	return n
}

// tallied is a backend whose calls are counted, each when it is made.
type tallied struct {
	reference.Backend
	asked *tally
}

func (b tallied) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	b.asked.add("acquire", c.Key)
	return b.Backend.Attempt(ctx, c)
}

func (b tallied) Renew(ctx context.Context, c reference.Claim) error {
	b.asked.add("renew", c.Key)
	return b.Backend.Renew(ctx, c)
}

func (b tallied) Release(ctx context.Context, c reference.Claim) error {
	b.asked.add("release", c.Key)
	return b.Backend.Release(ctx, c)
}
