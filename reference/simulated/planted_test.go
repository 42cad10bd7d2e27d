package simulated

import (
	"context"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/chaos/explore"
	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// planted is the engine on a lease server with one thing wrong.
type planted struct {
	reference.Backend
	clock *forgetful

	release func(ctx context.Context, c reference.Claim) error
	renew   func(ctx context.Context, c reference.Claim) error
	took    func(took, lease time.Duration) time.Duration // of how much of an answer's flight the engine hears nothing
}

// forgetful is a clock on which the flight of the last answer has not passed:
// an engine that measures on it counts a lease from the reply.
type forgetful struct {
	fakeclock.Clock
	flight atomic.Int64

	patient bool // calls are waited for three times as long
}

func (c *forgetful) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if c.patient {
		d *= 3
	}
	return c.Clock.WithTimeout(ctx, d)
}

func (c *forgetful) Since(t time.Time) time.Duration {
	return c.Clock.Since(t) - time.Duration(c.flight.Load())
}

func (p *planted) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	var g reference.Grant
	err := p.timed(c.Lease, func() (err error) {
		g, err = p.Backend.Attempt(ctx, c)
		return err
	})
	return g, err
}

// timed notes of a call that was answered ok how long its flight took.
func (p *planted) timed(lease time.Duration, call func() error) error {
	began := p.clock.Now()
	err := call()
	if err == nil && p.took != nil {
		p.clock.flight.Store(int64(p.took(p.clock.Clock.Since(began), lease)))
	}
	return err
}

func (p *planted) Renew(ctx context.Context, c reference.Claim) error {
	if p.renew != nil {
		return p.renew(ctx, c)
	}
	return p.timed(c.Lease, func() error { return p.Backend.Renew(ctx, c) })
}

func (p *planted) Release(ctx context.Context, c reference.Claim) error {
	if p.release != nil {
		return p.release(ctx, c)
	}
	return p.Backend.Release(ctx, c)
}

// resets is a lease server whose tokens begin anew whenever a key was released.
type resets struct {
	explore.Service
	token int64
	owner string
}

func (s *resets) Handle(server int, q explore.Request) (explore.Reply, bool) {
	r, up := s.Service.Handle(server, q)
	switch {
	case q.Op == explore.Acquire && r.Outcome == lockspec.OK:
		if s.owner != q.Owner {
			s.owner = q.Owner
			s.token++
		}
		r.Token = s.token
	case q.Op == explore.Release && r.Outcome == lockspec.OK:
		s.owner, s.token = "", 0
	}
	return r, up
}

// TestPlanted: each of five bugs is found within 10,000 schedules.
func TestPlanted(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	call := func(n *explore.Node, ctx context.Context, op explore.Op, c reference.Claim) error {
		r, err := n.Call(ctx, 0, explore.Request{Op: op, Key: c.Key, Owner: c.Owner, Lease: c.Lease})
		return problem(r, err)
	}
	for _, bug := range []struct {
		name  string
		plant func(n *explore.Node, p *planted)
		fence bool
		slow  bool   // to find
		only  string // faults whose names begin so; the bug needs slow answers
	}{
		{"deadline from the reply", func(_ *explore.Node, p *planted) {
			p.took = func(took, lease time.Duration) time.Duration { return took }
		}, false, true, "delay-"},
		{"late grant returned", func(_ *explore.Node, p *planted) {
			p.clock.patient = true
			p.took = func(took, lease time.Duration) time.Duration {
				if took < lease-lease/10 {
					return 0
				}
				return took
			}
		}, false, true, ""},
		{"renew revives", func(n *explore.Node, p *planted) {
			p.renew = func(ctx context.Context, c reference.Claim) error {
				err := call(n, ctx, explore.Renew, c)
				if lockspec.OutcomeOf(err) == lockspec.Lost {
					return call(n, ctx, explore.Acquire, c)
				}
				return err
			}
		}, false, false, ""},
		{"release without owner check", func(n *explore.Node, p *planted) {
			p.release = func(ctx context.Context, c reference.Claim) error { return call(n, ctx, explore.Delete, c) }
		}, false, false, ""},
		{"fence reset", nil, true, false, ""},
	} {
		t.Run(bug.name, func(t *testing.T) {
			if bug.slow && os.Getenv("LOCKCHECK_FULL") == "" {
				t.Skip("thousands of schedules; LOCKCHECK_FULL=1 plays them")
			}
			h := harness(explore.NewLeaseServer, leased{desc: leaseDescription()})
			if bug.fence {
				h.Service = func(w *explore.World) explore.Service { return &resets{Service: explore.NewLeaseServer(w)} }
			} else {
				h.Open = func(n *explore.Node) (lockspec.Client, error) {
					p := &planted{Backend: leased{n, leaseDescription()}, clock: &forgetful{Clock: n.Clock()}}
					bug.plant(n, p)
					o := options(0)
					o.Clock, o.Rand = p.clock, n.Rand()
					e, err := reference.New(p, o)
					if err != nil {
						return nil, err
					}
					return e.Client(), nil
				}
			}
			find(t, &h, bug.only)
		})
	}
}

func find(t *testing.T, h *explore.Harness, only string) {
	o := (&explore.Options{Only: func(fault string) bool { return strings.HasPrefix(fault, only) }}).Filled()
	for seed := range uint64(10000) {
		out := explore.Run(t, h, seed, o)
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		if out.Verdict.Outcome == checker.Failed {
			f := out.Verdict.Findings[0]
			t.Logf("found by schedule %d: %s/%s: %s", seed+1, f.Kind, f.Rule, f.Message)
			return
		}
	}
	t.Error("not found in 10,000 schedules")
}
