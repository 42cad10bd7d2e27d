package contract

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
)

// Harness brings clients of the lock under test. What else it can do are
// powers, found by type assertion; a case that needs one it lacks is
// unsupported, by name.
type Harness interface {
	// Open gives a new process on the node (n1, n2, …), with an owner of its
	// own. In one operating-system process all nodes may be the same.
	Open(ctx context.Context, node string) (lockspec.Client, error)
	// Describe says what the lock claims. It is asked before anything runs.
	Describe() lockspec.Description
}

// NodeHost is the power to run nodes as operating-system processes, which can
// be paused and killed.
type NodeHost interface {
	Node(ctx context.Context, name string) (*driver.Node, error)
}

// Timekeeper is the power of a simulated harness to stamp a history: the stamps
// of its nodes are readings of the same clock, in nanoseconds. Without it run
// time is the machine's, and stamps are raw CLOCK_MONOTONIC.
type Timekeeper interface {
	Now() int64
}

// Observer is the power to see by itself what happens to nodes: stalls and
// unasked ends.
type Observer interface {
	// Observe records into the recorder from now on; nil ends it.
	Observe(*history.Recorder)
	// Settle returns once everything that happened to nodes before the call is
	// recorded.
	Settle(ctx context.Context)
	// Broken lists what drivers did wrong since it was last asked: rubbish on
	// standard output, hanging. It is no failure of the lock.
	Broken() []error
}

// Pinger is the power to ask the service, which the harness runs itself, for a
// sign of life, past whatever cases put in the way of clients. An error is no
// sign of life; one that matches ErrUnsupported says that a fault of the
// harness's own keeps the service silent, which is no stall.
type Pinger interface {
	Ping(ctx context.Context) error
}

// The powers below reach into the lock service. They act on servers that the
// harness started itself, never on anybody's.

// TrafficCounter counts the requests that reached the service. The operations
// are acquire, renew, release; empty words match all.
type TrafficCounter interface {
	Requests(ctx context.Context, op, key string) (int, error)
}

// Interference is what becomes of a request on its way.
type Interference string

// The interferences.
const (
	DropRequest Interference = "drop-request" // never reaches the service
	HoldRequest Interference = "hold-request" // reaches it when lifted
	DropReply   Interference = "drop-reply"   // took effect, never answered
	HoldReply   Interference = "hold-reply"   // took effect, answered when lifted
)

// Interferer is the power to stand between clients and the service.
type Interferer interface {
	// Interfere strikes the next requests that match, times of them; -1 all,
	// until lifted.
	Interfere(ctx context.Context, what Interference, op, key string, times int) (Struck, error)
}

// Struck is an interference under way.
type Struck interface {
	Await(ctx context.Context) error // returns once it has struck
	Lift(ctx context.Context) error  // ends it and lets go what it holds; safe to call twice
}

// Evicter is the power to make the service drop a key, whoever holds it.
type Evicter interface {
	Evict(ctx context.Context, key string) error
}

// Restarter is the power to restart the service: whatever it does not persist
// is forgotten, and connections break.
type Restarter interface {
	Restart(ctx context.Context) error
}

// Stopper is the power to make the service answer nobody for a while.
type Stopper interface {
	Stop(ctx context.Context) error
	Continue(ctx context.Context) error
}

// Holder is what the service knows of who holds a key.
type Holder struct {
	Owner string
	Token int64 // 0: none
}

// Inspector is the power to look into the service, and to put a key of a
// foreign owner there.
type Inspector interface {
	Inspect(ctx context.Context, key string) ([]Holder, error)
	Seed(ctx context.Context, key, owner string, lease time.Duration) error
}

// Misdirection is a way in which a client is configured wrongly.
type Misdirection string

// The misdirections; they complete the sentence "a client …".
const (
	WrongCredentials Misdirection = "with wrong credentials"
	MissingStorage   Misdirection = "whose table, container or stream does not exist"
	ReadOnly         Misdirection = "that may only read"
	ThroughPooler    Misdirection = "behind a pooler that swaps sessions"
	AtReplica        Misdirection = "at a replica"
)

// Misdirector is the power to bring a client of the same lock that is
// configured wrongly. ErrUnsupported: not in this way.
type Misdirector interface {
	OpenAt(ctx context.Context, what Misdirection) (lockspec.Client, error)
}

// Emptier is the power to take the service back to before its first use: no
// key, and no table, container or stream that a lock makes for itself.
type Emptier interface {
	Empty(ctx context.Context) error
}

// Muter is the power to lose the notifications that the service sends about a
// key, the next times of them; -1 all, until lifted.
type Muter interface {
	Mute(ctx context.Context, key string, times int) (Struck, error)
}

// SessionEnder is the power to end the sessions that a node has with the
// service, as one that was not heard of for too long.
type SessionEnder interface {
	EndSessions(ctx context.Context, node string) error
}
