package broken

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// Locks without an engine: what a first draft looks like.
func bares() []Lock {
	return []Lock{
		{
			Name: "no-engine", Means: "each call goes to the service as it is: nothing is renewed, no deadline kept, nothing cleaned up after a lost reply",
			Reports: []string{"leandromoreira/redlock-rb#76"},
			Caught:  []Finding{{"E11", "contract", "late-grant"}},
			Bare:    true,
		},
	}
}

// Bare is a client that asks the backend and believes what it says. It does not
// claim more than that.
func Bare(b reference.Backend) lockspec.Client { return &bare{b} }

type bare struct{ b reference.Backend }

// Describe implements lockspec.Describer.
func (c *bare) Describe() lockspec.Description {
	d := c.b.Describe()
	d.Features = append([]lockspec.Feature{lockspec.Renew, lockspec.Wait}, d.Features...)
	return d
}

// barePoll is the pause between two attempts of a wait.
const barePoll = 20 * time.Millisecond

// Acquire implements lockspec.Client. Each attempt has an owner of its own.
func (c *bare) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	var elapsed <-chan time.Time
	if r.Wait > 0 {
		t := time.NewTimer(r.Wait)
		defer t.Stop()
		elapsed = t.C
	}
	for {
		claim := reference.Claim{Key: r.Key, Owner: rand.Text(), Lease: r.Lease, Count: max(1, r.Count), Mode: r.Mode}
		g, err := c.b.Attempt(ctx, claim)
		switch {
		case err == nil:
			if g.Lease > 0 {
				claim.Lease = g.Lease
			}
			return &bareLease{c.b, claim, g.Token}, nil
		case r.Wait == 0 || !errors.Is(err, lockspec.ErrBusy) && !errors.Is(err, lockspec.ErrUnavailable):
			return nil, err
		}
		select {
		case <-time.After(barePoll):
		case <-elapsed:
			if errors.Is(err, lockspec.ErrBusy) {
				return nil, lockspec.ErrTimeout
			}
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close implements lockspec.Client.
func (c *bare) Close() error { return nil }

type bareLease struct {
	b     reference.Backend
	claim reference.Claim
	token int64
}

// Granted implements lockspec.Lease.
func (l *bareLease) Granted() time.Duration { return l.claim.Lease }

// Token implements lockspec.Fenced.
func (l *bareLease) Token() int64 { return l.token }

// Release implements lockspec.Lease.
func (l *bareLease) Release(ctx context.Context) error { return l.b.Release(ctx, l.claim) }

// Renew implements lockspec.Renewer.
func (l *bareLease) Renew(ctx context.Context, lease time.Duration) error {
	claim := l.claim
	if lease > 0 {
		claim.Lease = lease
	}
	return l.b.Renew(ctx, claim)
}
