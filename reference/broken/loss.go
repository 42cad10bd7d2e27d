package broken

import (
	"context"
	"sync/atomic"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Locks whose holders do not hear of a loss.
func losses() []Lock {
	return []Lock{
		{
			Name: "loss-of-first-tenure-only", Means: "a client signals the loss of its first tenure, and of no other",
			Reports: []string{"twitter-archive/commons#5", "NishanthSpShetty/lignum#34", "madelson/DistributedLock#133"},
			Caught:  []Finding{{"E03", "loss-signal", "never"}, {"E07", "loss-signal", "never"}},
			Client:  func(c lockspec.Client) lockspec.Client { return &silent{Client: c} },
		},
	}
}

// silent hands out leases of which only the first signals its loss.
type silent struct {
	lockspec.Client
	granted atomic.Int64
}

func (s *silent) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	l, err := s.Client.Acquire(ctx, r)
	if full, ok := l.(powers); ok && err == nil && s.granted.Add(1) > 1 {
		return unlosable{full}, nil
	}
	return l, err
}

// powers are what the engine's leases can.
type powers interface {
	lockspec.Lease
	lockspec.Renewer
	lockspec.Fenced
	lockspec.Notifier
	lockspec.HoldChecker
	lockspec.Sender
	lockspec.LossStamper
	lockspec.RenewalSource
}

// unlosable is a lease that signals nothing. It still tells whoever asks.
type unlosable struct{ powers }

func (unlosable) Lost() <-chan struct{}  { return nil }
func (unlosable) LostAt() lockspec.Stamp { return 0 }
