package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference"
)

func without(all []lockspec.Feature, f lockspec.Feature) (rest []lockspec.Feature) {
	for _, g := range all {
		if g != f {
			rest = append(rest, g)
		}
	}
	return rest
}

// wrong replaces what a backend does; nil is left right.
type wrong struct {
	attempt func(context.Context, reference.Backend, reference.Claim) (reference.Grant, error)
	renew   func(context.Context, reference.Backend, reference.Claim) error
	release func(context.Context, reference.Backend, reference.Claim) error
}

type wronged struct {
	reference.Backend
	wrong
	id string
}

// on makes a backend wrong for the keys of one case.
func on(id string, w wrong) func(reference.Backend) reference.Backend {
	return func(b reference.Backend) reference.Backend { return wronged{b, w, "/" + id + "/"} }
}

func (w wronged) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	if w.attempt == nil || !strings.Contains(c.Key, w.id) {
		return w.Backend.Attempt(ctx, c)
	}
	return w.attempt(ctx, w.Backend, c)
}

func (w wronged) Renew(ctx context.Context, c reference.Claim) error {
	if w.renew == nil || !strings.Contains(c.Key, w.id) {
		return w.Backend.Renew(ctx, c)
	}
	return w.renew(ctx, w.Backend, c)
}

func (w wronged) Release(ctx context.Context, c reference.Claim) error {
	if w.release == nil || !strings.Contains(c.Key, w.id) {
		return w.Backend.Release(ctx, c)
	}
	return w.release(ctx, w.Backend, c)
}

func deaf(ctx context.Context, b reference.Backend, c reference.Claim) error {
	_ = b.Renew(ctx, c)
	return nil
}

func hasty(ctx context.Context, b reference.Backend, c reference.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, labLease/15)
	defer cancel()
	if err := b.Renew(ctx, c); err != nil {
		return lockspec.ErrNotHeld
	}
	return nil
}

func stubborn(ctx context.Context, b reference.Backend, c reference.Claim) error {
	err := b.Renew(ctx, c)
	for n := 0; n < 3 && err != nil; n++ {
		err = b.Renew(ctx, c)
	}
	return err
}

func setting(ctx context.Context, b reference.Backend, c reference.Claim) error {
	if err := b.Renew(ctx, c); !errors.Is(err, lockspec.ErrNotHeld) && !errors.Is(err, lockspec.ErrLost) {
		return err
	}
	_, err := b.Attempt(ctx, c)
	return err
}

// longer asks the service for more than it tells.
var longer = wrong{
	attempt: func(ctx context.Context, b reference.Backend, c reference.Claim) (reference.Grant, error) {
		told := c.Lease
		c.Lease *= 4
		g, err := b.Attempt(ctx, c)
		g.Lease = told
		return g, err
	},
	renew: func(ctx context.Context, b reference.Backend, c reference.Claim) error {
		c.Lease *= 4
		return b.Renew(ctx, c)
	},
}

// tokens makes the n-th grant's token from n.
func tokens(of func(n int64) int64) func(context.Context, reference.Backend, reference.Claim) (reference.Grant, error) {
	var n atomic.Int64
	return func(ctx context.Context, b reference.Backend, c reference.Claim) (reference.Grant, error) {
		g, err := b.Attempt(ctx, c)
		if err == nil {
			g.Token = of(n.Add(1))
		}
		return g, err
	}
}

// countingAlone is called once for each engine.
func countingAlone(b reference.Backend) reference.Backend {
	return on("F02", wrong{attempt: tokens(func(n int64) int64 { return n })})(b)
}

// forgetful counts for all engines together, and from 1 again once the service
// has said that it knows a key no more.
func forgetful(id string) func(reference.Backend) reference.Backend {
	var n atomic.Int64
	return on(id, wrong{
		attempt: func(ctx context.Context, b reference.Backend, c reference.Claim) (reference.Grant, error) {
			g, err := b.Attempt(ctx, c)
			if err == nil {
				g.Token = n.Add(1)
			}
			return g, err
		},
		release: func(ctx context.Context, b reference.Backend, c reference.Claim) error {
			err := b.Release(ctx, c)
			if errors.Is(err, lockspec.ErrNotHeld) || errors.Is(err, lockspec.ErrLost) {
				n.Store(0)
			}
			return err
		},
	})
}

type folding struct{ reference.Backend }

func folded(b reference.Backend) reference.Backend { return folding{b} }

func (f folding) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	c.Key = strings.ToLower(c.Key)
	return f.Backend.Attempt(ctx, c)
}

func (f folding) Renew(ctx context.Context, c reference.Claim) error {
	c.Key = strings.ToLower(c.Key)
	return f.Backend.Renew(ctx, c)
}

func (f folding) Release(ctx context.Context, c reference.Claim) error {
	c.Key = strings.ToLower(c.Key)
	return f.Backend.Release(ctx, c)
}

// answering replaces what a client's Acquire does.
type answering struct {
	lockspec.Client
	acquire func(context.Context, lockspec.Request) (lockspec.Lease, error)
}

func (a answering) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	return a.acquire(ctx, r)
}

// powerful is a lease of the reference engine with all its powers.
type powerful interface {
	lockspec.Lease
	lockspec.Renewer
	lockspec.Fenced
	lockspec.Notifier
	lockspec.LossStamper
	lockspec.HoldChecker
	lockspec.Sender
	lockspec.RenewalSource
}

// leases changes the leases of one case.
func leases(id string, change func(powerful) lockspec.Lease) func(lockspec.Client) lockspec.Client {
	return func(c lockspec.Client) lockspec.Client {
		return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
			l, err := c.Acquire(ctx, r)
			if err != nil || !strings.Contains(r.Key, "/"+id+"/") {
				return l, err
			}
			return change(l.(powerful)), nil
		}}
	}
}

type heldForEver struct{ powerful }

func alwaysHeld(l powerful) lockspec.Lease     { return heldForEver{l} }
func (heldForEver) Held(context.Context) error { return nil }

type unlosable struct{ powerful }

func neverLost(l powerful) lockspec.Lease    { return unlosable{l} }
func (unlosable) Lost() <-chan struct{}      { return nil }
func (unlosable) LostAt() lockspec.Stamp     { return 0 }
func (unlosable) Held(context.Context) error { return nil }

type retoken struct {
	powerful
	renewed *atomic.Int64
}

func newTokens(l powerful) lockspec.Lease { return retoken{l, new(atomic.Int64)} }
func (r retoken) Token() int64            { return r.powerful.Token() + r.renewed.Load() }
func (r retoken) Renew(ctx context.Context, d time.Duration) error {
	r.renewed.Add(1)
	return r.powerful.Renew(ctx, d)
}

type gone struct{ powerful }

func justGone(l powerful) lockspec.Lease { return gone{l} }
func (g gone) Cause() error {
	if g.powerful.Cause() == nil {
		return nil
	}
	return fmt.Errorf("%w: gone", lockspec.ErrLost)
}

// naively asks the backend as long as it takes, and believes its answer.
func naively(id string) fault {
	var raw atomic.Pointer[reference.Backend]
	return fault{
		backend: func(b reference.Backend) reference.Backend {
			raw.Store(&b)
			return b
		},
		client: func(c lockspec.Client) lockspec.Client {
			return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
				if !strings.Contains(r.Key, "/"+id+"/") {
					return c.Acquire(ctx, r)
				}
				claim := reference.Claim{Key: r.Key, Owner: "naive", Lease: r.Lease, Count: 1}
				g, err := (*raw.Load()).Attempt(context.WithoutCancel(ctx), claim)
				return naive{*raw.Load(), claim, g}, err
			}}
		},
	}
}

type naive struct {
	b     reference.Backend
	claim reference.Claim
	g     reference.Grant
}

func (n naive) Granted() time.Duration            { return n.claim.Lease }
func (n naive) Token() int64                      { return n.g.Token }
func (n naive) Release(ctx context.Context) error { return n.b.Release(ctx, n.claim) }
func (n naive) Held(context.Context) error        { return nil }

// outcomes says one thing for another.
func outcomes(id string, right, wrong error) func(lockspec.Client) lockspec.Client {
	return func(c lockspec.Client) lockspec.Client {
		return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
			l, err := c.Acquire(ctx, r)
			if errors.Is(err, right) && strings.Contains(r.Key, "/"+id+"/") {
				err = wrong
			}
			return l, err
		}}
	}
}

func cancelledIsBusy(c lockspec.Client) lockspec.Client {
	return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
		l, err := c.Acquire(ctx, r)
		if lockspec.OutcomeOf(err) == lockspec.Cancelled && strings.Contains(r.Key, "/H03/") {
			err = errors.Join(err, lockspec.ErrBusy)
		}
		return l, err
	}}
}

// fullAfter has room for so many keys, over all clients.
func fullAfter(room int64) func(lockspec.Client) lockspec.Client {
	var n atomic.Int64
	return func(c lockspec.Client) lockspec.Client {
		return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
			if strings.Contains(r.Key, "/I06/") && n.Add(1) > room {
				return nil, lockspec.ErrBusy
			}
			return c.Acquire(ctx, r)
		}}
	}
}

// OpenAt implements contract.Misdirector.
func (l *lab) OpenAt(context.Context, contract.Misdirection) (lockspec.Client, error) {
	if l.fault.misdirected == nil {
		return nil, lockspec.ErrUnsupported
	}
	return l.fault.misdirected, nil
}

// Clients that are configured wrongly.
type (
	refusing struct{} // as is right
	endless  struct{}
	granting struct{}
)

func (refusing) Close() error { return nil }
func (endless) Close() error  { return nil }
func (granting) Close() error { return nil }

func (refusing) Acquire(context.Context, lockspec.Request) (lockspec.Lease, error) {
	return nil, fmt.Errorf("%w: this is a replica", lockspec.ErrConfig)
}

func (endless) Acquire(ctx context.Context, _ lockspec.Request) (lockspec.Lease, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (granting) Acquire(context.Context, lockspec.Request) (lockspec.Lease, error) {
	return paper{}, nil
}

// paper is a lease that nobody keeps.
type paper struct{}

func (paper) Granted() time.Duration        { return labLease }
func (paper) Release(context.Context) error { return nil }
