package main

import (
	"context"

	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// What these services hold is in memory: a restart leaves nothing of it.
var (
	_ contract.Emptier = embedded{}
	_ contract.Emptier = inside{}
)

// Empty implements contract.Emptier.
func (s embedded) Empty(ctx context.Context) error { return s.Restart(ctx) }

// Empty implements contract.Emptier.
func (h inside) Empty(ctx context.Context) error { return h.Restart(ctx) }
