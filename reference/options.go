package reference

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Options are an engine's settings. The zero value of each field stands for
// the default that its comment names.
type Options struct {
	// Clock is what every timing decision is made on; default: the real one.
	Clock fakeclock.Clock

	// Namespace keeps the keys of this engine apart from those of every other
	// namespace on the same service; default: none, keys are used as they are.
	Namespace string

	// Lease is asked for where AcquireOptions names none; default: the
	// backend's. It means nothing to a session. A client promises to tolerate
	// outages of a quarter of it if it is named here.
	Lease time.Duration

	// Margin is the part of a lease that is given up for safety; default 0.1.
	// A holder lets go this long before the service does, so the clock rates
	// of the two may differ by as much.
	Margin float64

	// MinRetryDelay and MaxRetryDelay bound the delay between two attempts of
	// a wait, which doubles from one to the other; default 50 ms and 1 s.
	MinRetryDelay, MaxRetryDelay time.Duration

	// AttemptTimeout bounds one attempt; default 5 s, and never more than the
	// part of the lease that can be used.
	AttemptTimeout time.Duration

	// ReleaseTimeout bounds one Release and all its retries; default 5 s.
	ReleaseTimeout time.Duration

	// Reentrant lets a Client of this engine acquire again what it holds: the
	// key is free when every one of its leases has been released. The
	// engine's own methods are never reentrant, for they know no owner.
	Reentrant bool

	// Rand jitters delays and makes owner names; default: the runtime's
	// generator. A seeded one repeats a simulation; no two engines of it may
	// have the same seed, or they would be one owner. It is used under a lock.
	Rand rand.Source

	// Observer is told what happens; default: nobody.
	Observer Observer

	// CauseText puts the text of a backend's errors into messages, which may
	// then show keys and connection strings.
	CauseText bool

	leaseSet bool // the caller named Lease

	_ struct{}
}

// The defaults.
const (
	DefaultMargin         = 0.1
	DefaultMinRetryDelay  = 50 * time.Millisecond
	DefaultMaxRetryDelay  = time.Second
	DefaultAttemptTimeout = 5 * time.Second
	DefaultReleaseTimeout = 5 * time.Second
)

// withDefaults is a copy with every default filled in, or an error that
// matches ErrConfig and lists all that is wrong.
func (o *Options) withDefaults(b Backend) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Clock == nil {
		c.Clock = fakeclock.Real()
	}
	c.leaseSet = c.Lease != 0
	orDefault(&c.Lease, b.Timing().lease)
	orDefault(&c.Margin, DefaultMargin)
	orDefault(&c.MinRetryDelay, DefaultMinRetryDelay)
	orDefault(&c.MaxRetryDelay, max(c.MinRetryDelay, DefaultMaxRetryDelay))
	orDefault(&c.AttemptTimeout, DefaultAttemptTimeout)
	orDefault(&c.ReleaseTimeout, DefaultReleaseTimeout)
	return c, c.validate(b)
}

func (o *Options) validate(b Backend) error {
	var p problems
	check(&p, o.Margin > 0 && o.Margin <= 0.5, "margin %v is not in (0, 0.5]", o.Margin)
	check(&p, o.MinRetryDelay > 0, "minimum retry delay %v is not positive", o.MinRetryDelay)
	check(&p, o.MaxRetryDelay >= o.MinRetryDelay, "maximum retry delay %v is below the minimum, %v", o.MaxRetryDelay, o.MinRetryDelay)
	check(&p, o.AttemptTimeout > 0, "attempt timeout %v is not positive", o.AttemptTimeout)
	check(&p, o.ReleaseTimeout > 0, "release timeout %v is not positive", o.ReleaseTimeout)
	d := b.Describe()
	if err := d.Validate(); err != nil {
		p = append(p, err)
	}
	if b.Timing().Expires() {
		p.lease(o.Lease, d.Bounds)
	} else {
		check(&p, b.Timing().probe > 0, "probe interval %v is not positive", b.Timing().probe)
		check(&p, o.Lease == 0, "lease %v for a lock that is held by a session", o.Lease)
	}
	return p.err()
}

// AcquireOptions are the settings of one acquisition.
type AcquireOptions struct {
	// Lease is asked for; 0: Options.Lease.
	Lease time.Duration
	// Wait bounds Acquire's and Do's wait; 0: as long as the context lives.
	// TryAcquire does not wait.
	Wait time.Duration
	// MaxHold ends the tenure as lost when it has lasted this long, however
	// well it is renewed, so that a stuck holder is not one for ever; 0: never.
	MaxHold time.Duration
	// Renew: RenewManual leaves renewing to Lease.Renew; the tenure is lost at
	// its deadline otherwise.
	Renew lockspec.RenewMode
	// Mode: Read shares the key with other readers, where the backend claims shared.
	Mode lockspec.Mode
	// Count is how many permits to take, where the backend claims permits; 0: one.
	Count int

	_ struct{}
}

// resolve is a copy with defaults filled in, or an error that matches
// ErrConfig or ErrUnsupported.
func (e *Engine) resolve(o *AcquireOptions) (AcquireOptions, error) {
	var c AcquireOptions
	if o != nil {
		c = *o
	}
	orDefault(&c.Lease, e.opts.Lease)
	orDefault(&c.Count, 1)
	orDefault(&c.Renew, lockspec.RenewAuto)
	if c.Mode == lockspec.Write {
		c.Mode = lockspec.Exclusive
	}
	if c.Mode == lockspec.Read && !e.desc.Claims(lockspec.Shared) {
		return c, fmt.Errorf("%w: readers", lockspec.ErrUnsupported)
	}
	if c.Count > max(1, e.desc.Capacity) {
		return c, fmt.Errorf("%w: %d permits of %d", lockspec.ErrUnsupported, c.Count, max(1, e.desc.Capacity))
	}
	return c, c.validate(e)
}

func (o *AcquireOptions) validate(e *Engine) error {
	var p problems
	if e.timing.Expires() {
		p.lease(o.Lease, e.desc.Bounds)
	} else {
		check(&p, o.Lease == 0, "lease %v for a lock that is held by a session", o.Lease)
	}
	check(&p, o.Wait >= 0, "wait %v is negative", o.Wait)
	check(&p, o.MaxHold >= 0, "max hold %v is negative", o.MaxHold)
	check(&p, o.Count >= 1, "count %d is not positive", o.Count)
	check(&p, o.Mode == lockspec.Exclusive || o.Mode == lockspec.Read, "unknown mode %q", o.Mode)
	check(&p, o.Renew == lockspec.RenewAuto || o.Renew == lockspec.RenewManual, "unknown renew mode %q", o.Renew)
	return p.err()
}

// problems collects everything that is wrong, so that it is told at once.
type problems []error

// check boxes nothing where all is well: every acquisition passes here.
func check[T any](p *problems, ok bool, format string, args ...T) {
	if ok {
		return
	}
	boxed := make([]any, len(args))
	for i, a := range args {
		boxed[i] = a
	}
	*p = append(*p, fmt.Errorf(format, boxed...))
}

func (p *problems) lease(lease time.Duration, b lockspec.Bounds) {
	check(p, lease > 0, "lease %v is not positive", lease)
	check(p, lease <= 0 || lease >= b.LeaseMin, "lease %v is below the minimum, %v", lease, b.LeaseMin)
	check(p, b.LeaseMax == 0 || lease <= b.LeaseMax, "lease %v is above the maximum, %v", lease, b.LeaseMax)
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", lockspec.ErrConfig, errors.Join(p...))
}

func orElse[T comparable](value, other T) T {
	orDefault(&value, other)
	return value
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
