package memory

import (
	"context"
	"net"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// BackendOptions are the settings of a way to a store.
type BackendOptions struct {
	// Lease is asked for where the engine names none; default 30 s.
	Lease time.Duration
	// Capacity makes each key that many permits; 0 and 1: a mutex.
	Capacity int
	// Shared lets readers share a key.
	Shared bool
	// Dial makes the connection; default: TCP to the address.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	_ struct{}
}

// DefaultLease is asked for where nobody names another.
const DefaultLease = 30 * time.Second

func (o *BackendOptions) withDefaults() BackendOptions {
	var c BackendOptions
	if o != nil {
		c = *o
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Dial == nil {
		c.Dial = dialTCP
	}
	return c
}

func (o BackendOptions) describe(name string, class lockspec.Class) lockspec.Description {
	hazards, _ := class.Ceiling()
	d := lockspec.Description{
		Name: name, Class: class, Hazards: hazards, Capacity: o.Capacity,
		Features: []lockspec.Feature{lockspec.Fencing, lockspec.OwnerChecked},
		Bounds:   lockspec.Bounds{LeaseMin: time.Millisecond, LeaseMax: 24 * time.Hour, Takeover: takeover},
	}
	if o.Capacity > 1 {
		d.Features = append(d.Features, lockspec.Permits)
	}
	if o.Shared {
		// No strict-try: for a while nobody knows that a writer waits no more.
		d.Features = append(d.Features, lockspec.Shared)
	} else {
		d.Features = append(d.Features, lockspec.StrictTry)
	}
	return d
}

// takeover is what a free key needs to become obtainable. Leases end on time;
// the rest is for a busy machine.
const takeover = 100 * time.Millisecond

// Backend is the store as a backend of class memory.
func (s *Store) Backend(opts *BackendOptions) reference.Backend {
	return local{s, opts.withDefaults()}
}

type local struct {
	s    *Store
	opts BackendOptions
}

func (b local) Describe() lockspec.Description { return b.opts.describe("memory", lockspec.Memory) }
func (b local) Timing() reference.Timing       { return reference.Expiring(b.opts.Lease) }
func (b local) Close() error                   { return nil }
func (b local) Prompt()                        {}

func (b local) Attempt(_ context.Context, c reference.Claim) (reference.Grant, error) {
	token, err := b.s.Acquire(Request{c.Key, c.Owner, c.Lease, c.Mode, c.Count, b.opts.Capacity, c.Waits})
	return reference.Grant{Token: token, Lease: c.Lease}, err
}

func (b local) Renew(_ context.Context, c reference.Claim) error {
	return b.s.Renew(c.Key, c.Owner, c.Lease)
}

func (b local) Release(_ context.Context, c reference.Claim) error {
	return b.s.Release(c.Key, c.Owner)
}
