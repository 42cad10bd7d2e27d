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
	nodes *engines
}

type engines struct {
	mu sync.Mutex
	by map[string]*reference.Engine
}

func newInside(lease time.Duration) inside {
	return inside{memory.New(nil), lease, &engines{by: map[string]*reference.Engine{}}}
}

func (h inside) engine() (*reference.Engine, error) {
	return reference.New(h.store.Backend(nil), &reference.Options{Lease: h.lease})
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
