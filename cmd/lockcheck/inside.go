package main

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
)

// inside is the harness of a lock in this process: each node is an engine over
// one store.
type inside struct {
	store *memory.Store
	lease time.Duration // that the cases will ask for
}

func newInside(lease time.Duration) inside { return inside{memory.New(nil), lease} }

func (h inside) engine() (*reference.Engine, error) {
	return reference.New(h.store.Backend(nil), &reference.Options{Lease: h.lease})
}

// Open implements contract.Harness.
func (h inside) Open(context.Context, string) (lockspec.Client, error) {
	e, err := h.engine()
	if err != nil {
		return nil, err
	}
	return e.Client(), nil
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
