package reference

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Backend is the way to one lock service. It is dumb on purpose: each method
// makes one attempt and says what the service answered. Waiting, renewal,
// deadlines, retries and cleaning up are the [Engine]'s.
//
// Methods are called concurrently. They return soon after their context ends;
// an engine survives one that does not, but the call keeps a goroutine.
// A panic becomes a [PanicError].
type Backend interface {
	// Describe says what the service and this backend promise. Features of
	// the engine's own (wait, renewal, loss signal …) are added by the engine.
	Describe() lockspec.Description

	// Timing says how a grant ends by itself.
	Timing() Timing

	// Attempt asks once for c.Key in the name of c.Owner. An owner that holds
	// the key already is granted it again, with the same token and a lease
	// that starts anew: that is how an engine finds out that an attempt whose
	// reply was lost had succeeded.
	//
	// ErrBusy: another holds the key, and nothing was granted. ErrConfig,
	// ErrInvalidKey and ErrUnsupported: no retry can help, and nothing was
	// granted. Any other error: unknown, it may have been granted, unless the
	// error matches ErrNotSent.
	Attempt(ctx context.Context, c Claim) (Grant, error)

	// Renew makes the lease start anew with length c.Lease, or asks whether
	// the session still holds the key. ErrNotHeld (or a [LostError] that knows
	// more) is definite: the owner is no holder. Any other error is
	// transient, and the engine tries again while there is time.
	Renew(ctx context.Context, c Claim) error

	// Release frees the key if c.Owner holds it, and must not touch another
	// owner's grant. ErrNotHeld (or a [LostError]) is definite.
	Release(ctx context.Context, c Claim) error

	// Close gives up the way to the service. What is still held stays held
	// until it expires or its session ends.
	Close() error
}

// Prompt is a backend that returns as soon as the context of a call ends,
// wherever the call hangs. An engine makes its calls without a goroutine for
// each: on a machine with few processors two switches of goroutine cost as much
// as a fast service's answer (examples/speed).
//
// What wraps a Backend and does not say so is none, however prompt the wrapped
// one is.
type Prompt interface {
	Backend
	Prompt()
}

// Claim is who wants, or has, what.
type Claim struct {
	Key   string
	Owner string        // random, one for each attempt that may be granted
	Lease time.Duration // asked; 0 for a session
	Mode  lockspec.Mode // Read only where the backend claims shared
	Count int           // at least 1; above 1 only where the backend claims permits
	Waits bool          // whoever is refused comes back soon: a writer that waits may hold new readers back
}

// Grant is what an attempt won.
type Grant struct {
	Token int64         // fencing token, > 0; 0: the service has none
	Lease time.Duration // what the service granted, from the send of the request; 0: what was asked

	// Lost delivers an error, or is closed, when the backend learns by itself
	// that the grant is gone. Nil: it never does.
	Lost <-chan error
}

// Timing says how a grant ends by itself. Make one with [Expiring] or
// [Session].
type Timing struct {
	lease, probe time.Duration
}

// Expiring is the timing of a service that grants for a time. The given lease
// is asked for where the caller names none.
func Expiring(lease time.Duration) Timing { return Timing{lease: lease} }

// Session is the timing of a service that grants for as long as a connection
// lives. The engine asks at this interval whether it does, and gives a session
// up that has not said so for three of them.
func Session(probe time.Duration) Timing { return Timing{probe: probe} }

// Expires says whether grants are leases.
func (t Timing) Expires() bool { return t.probe == 0 }
