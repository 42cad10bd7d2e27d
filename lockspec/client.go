package lockspec

import (
	"context"
	"time"
)

// Client is one owner's way to the lock service: one process of one node.
// It is safe for concurrent use, but a workload has at most one acquisition
// open on it at a time.
type Client interface {
	// Acquire takes r.Key. It returns a Lease and a nil error, or a nil Lease
	// and an error that [OutcomeOf] can name; never both, never neither.
	//
	// r.Wait 0 means exactly one attempt, -1 as long as ctx lives. ctx bounds
	// the acquisition only: a Lease outlives the context it was acquired with.
	Acquire(ctx context.Context, r Request) (Lease, error)

	// Close gives up the client. Whether it releases what is held is the
	// lock's own documented behaviour. It is safe to call twice.
	Close() error
}

// Request is what an acquisition asks for. The zero value of every field but
// Key is a meaningful default.
type Request struct {
	Key   string        // what is taken
	Lease time.Duration // asked lease; 0: the lock's default. What was granted counts, see Lease.Granted
	Wait  time.Duration // 0: one attempt; NoLimit: as long as the context lives
	Renew RenewMode     // by itself where the lock claims auto-renew, unless asked otherwise
	Mode  Mode          // exclusive unless asked otherwise
	Count int           // permits taken; 0 and 1 are the same

	_ struct{} // named fields only, so that fields can be added
}

// NoLimit as Request.Wait waits as long as the context lives.
const NoLimit time.Duration = -1

// RenewMode says who renews a lease.
type RenewMode string

// The renew modes. The words are those of the driver protocol.
const (
	RenewDefault RenewMode = ""       // auto where claimed, else manual
	RenewAuto    RenewMode = "auto"   // the lock renews by itself
	RenewManual  RenewMode = "manual" // only Renewer.Renew renews
)

// Mode tells readers from writers. The zero value is exclusive.
type Mode string

// The modes. The words are those of the driver protocol.
const (
	Exclusive Mode = ""
	Read      Mode = "read"
	Write     Mode = "write"
)

// Lease is one tenure: one stay of one process as holder. It is safe for
// concurrent use.
type Lease interface {
	// Granted is how long the service promises the key without renewal,
	// counted from the send of the request that took it. 0: held by a session.
	Granted() time.Duration

	// Release ends the tenure. A former holder may be answered ErrLost or
	// ErrNotHeld; both mean "the caller is no holder now".
	Release(ctx context.Context) error
}

// Renewer is the power to renew a lease by hand. A lease of 0 asks for the
// one that was granted.
type Renewer interface {
	Renew(ctx context.Context, lease time.Duration) error
}

// Fenced is the power to tell the tenure's fencing token. It is > 0; a lease
// without tokens lacks the method.
type Fenced interface {
	Token() int64
}

// Notifier is the power to signal the loss of a tenure without being asked.
type Notifier interface {
	// Lost is closed once the tenure is lost; it stays open after a release.
	Lost() <-chan struct{}
	// Cause is nil until Lost is closed, then an error that matches ErrLost.
	Cause() error
}

// HoldChecker is the power to say whether the tenure still stands.
type HoldChecker interface {
	// Held is nil while it does, ErrLost or ErrNotHeld afterwards, and
	// ErrUnavailable while it is in doubt.
	Held(ctx context.Context) error
}

// The powers below are what crosses a Client besides Acquire and Release.
// A client that lives in another operating-system process (driver.Node's)
// implements them; in the test's own process the workload does check and work
// itself.

// Stamp is a reading of raw CLOCK_MONOTONIC in nanoseconds, taken by a clock
// that was proven against the harness's own. 0: there is none.
type Stamp int64

// Sender is the power of a Lease to tell when the attempt that won was sent.
// Without it a waiting acquisition entitles its holder to nothing until the
// first renewal, because the harness saw only the send of the wait.
type Sender interface {
	Sent() Stamp
}

// LossStamper is the power of a Lease to tell when its loss was raised.
// 0 until then, or where no proven clock tells.
type LossStamper interface {
	LostAt() Stamp
}

// RenewalSource is the power of a self-renewing Lease to show its renewals.
// The channel is never closed; a renewal is in it before any reply that was
// computed after it.
type RenewalSource interface {
	Renewals() <-chan Renewal
}

// Renewal is one successful renewal that a lock did by itself.
type Renewal struct {
	Sent  Stamp         // when its request was sent; 0: unknown, it entitles to nothing
	Lease time.Duration // what it granted, counted from Sent
}

// Doubter is the power of a Lease to say that its connection is in doubt
// (ZooKeeper's SUSPENDED) and sure again.
type Doubter interface {
	// Doubts delivers true when doubt begins and false when it ends.
	Doubts() <-chan bool
}

// Worker is the power of a Lease to do one write as an application does:
// check what the lock offers, work for that long, then answer without a second
// check. A pause placed in the work is what fencing exists for.
//
// The token is the tenure's, 0 where there are none. A check that says no
// answers ErrLost, ErrNotHeld or ErrUnavailable.
type Worker interface {
	Work(ctx context.Context, work time.Duration) (token int64, err error)
}

// Describer is the power of a Client to describe the lock it speaks to, and of
// a Lease to say where its handle differs from that.
type Describer interface {
	Describe() Description
}

// Remainder is the power of a Lease to tell what was left of it when its
// acquisition was answered, where the acquisition did not refresh it (a lease
// shared by a whole session). ok is false where it was refreshed.
type Remainder interface {
	Left() (left time.Duration, ok bool)
}

// Sectioner is the power of a Client whose lock takes a callback: acquire,
// work for that long and release in one call. entered is called when the work
// begins, with the tenure it runs in, and left when it ends; both before
// Section returns. Who hears of the end by a message tells left a moment at which
// the work surely still went on; 0: it ends now. A lock lost in the work answers ErrLost. The token is the
// tenure's, 0 where there are none.
type Sectioner interface {
	Section(ctx context.Context, r Request, work time.Duration, entered func(Lease), left func(after Stamp)) (token int64, err error)
}
