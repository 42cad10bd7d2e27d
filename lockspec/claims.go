package lockspec

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Class is the kind of a lock: by what it is held, and so how it can break.
type Class string

// The classes.
const (
	Consensus       Class = "consensus"        // etcd, ZooKeeper
	Leased          Class = "lease"            // one Redis, an Azure blob, an SQL row
	ReplicatedLease Class = "replicated-lease" // Redis with asynchronous replicas, Redlock
	Session         Class = "session"          // PostgreSQL advisory locks
	Memory          Class = "memory"           // one process
)

// Hazard is a failure that a class of locks is known to have.
type Hazard string

// The hazard words.
const (
	Pause       Hazard = "pause"        // a pause of the holder outlives its lease
	Suspend     Hazard = "suspend"      // the holder's machine is suspended, its monotonic clock stops
	Partition   Hazard = "partition"    // the holder cannot reach the service
	ClientClock Hazard = "client-clock" // the holder's clock runs wrong
	ServerClock Hazard = "server-clock" // the service's clock jumps
	Restart     Hazard = "restart"      // the service restarts and has forgotten
	Failover    Hazard = "failover"     // a replica that has not heard of the grant takes over
	Evict       Hazard = "evict"        // the service drops the key
	Pooler      Hazard = "pooler"       // a connection pooler swaps the session underneath
)

// Hazards lists every hazard word.
func Hazards() []Hazard {
	return []Hazard{Pause, Suspend, Partition, ClientClock, ServerClock, Restart, Failover, Evict, Pooler}
}

// ClassRow is one line of the table of classes.
type ClassRow struct {
	Class   Class
	Ceiling []Hazard // what a target of the class may declare
	Means   string
}

var classes = []ClassRow{
	{Consensus, []Hazard{Pause, Suspend, ClientClock}, "a majority agrees on the holder (etcd, ZooKeeper)"},
	{Leased, []Hazard{Pause, Suspend, ClientClock, ServerClock, Restart, Evict, Partition}, "one server promises the key for a while (Redis, Azure blob, SQL row)"},
	{ReplicatedLease, []Hazard{Pause, Suspend, ClientClock, ServerClock, Restart, Evict, Partition, Failover}, "a lease whose replicas may not know of it (Redis with replicas, Redlock)"},
	{Session, []Hazard{Pause, Suspend, Partition, Restart, Failover, Pooler}, "held as long as a connection lives (PostgreSQL advisory locks)"},
	{Memory, nil, "one process, no service"},
}

// Classes is the table of classes.
func Classes() []ClassRow { return append([]ClassRow(nil), classes...) }

// Ceiling is the hazards that a target of the class may declare; ok is false
// for a class that does not exist.
func (c Class) Ceiling() (hazards []Hazard, ok bool) {
	i := slices.IndexFunc(classes, func(row ClassRow) bool { return row.Class == c })
	if i < 0 {
		return nil, false
	}
	return append([]Hazard(nil), classes[i].Ceiling...), true
}

// Allows says whether a target of the class may declare the hazard.
func (c Class) Allows(h Hazard) bool {
	i := slices.IndexFunc(classes, func(row ClassRow) bool { return row.Class == c })
	return i >= 0 && slices.Contains(classes[i].Ceiling, h)
}

// Profile is what the user claims of a deployment.
type Profile string

// The profiles.
const (
	Advisory        Profile = "advisory"  // efficiency only: declared hazards are tolerated
	ExclusiveHolder Profile = "exclusive" // no two running holders, ever
	FencedResource  Profile = "fenced"    // exclusive, and declared hazards are harmless: the resource rejects stale tokens
)

// Profiles lists the profiles.
func Profiles() []Profile { return []Profile{Advisory, ExclusiveHolder, FencedResource} }

// Feature is something a lock may claim to offer.
type Feature string

// The features. Permits is written permits:k, with k the capacity.
const (
	Wait              Feature = "wait"               // Request.Wait other than 0
	FIFO              Feature = "fifo"               // local waiters are served first come first served
	Renew             Feature = "renew"              // Renewer
	AutoRenew         Feature = "auto-renew"         // renews by itself
	Fencing           Feature = "fencing"            // Fenced
	LossSignal        Feature = "loss-signal"        // Notifier
	HoldCheck         Feature = "hold-check"         // HoldChecker asks about the tenure, not a local flag
	IdempotentRelease Feature = "idempotent-release" // a second release answers ok
	Reentrant         Feature = "reentrant"          // a holder may acquire again
	Shared            Feature = "shared"             // readers share, a writer excludes
	Permits           Feature = "permits"            // permits:k
	Cancel            Feature = "cancel"             // an open acquisition can be cancelled
	ClockSkew         Feature = "clock-skew"         // a node's clock can be shifted by the harness
	SessionLease      Feature = "session-lease"      // acquire does not refresh the shared lease
	StrictTry         Feature = "strict-try"         // of simultaneous tries on a free key one wins
	OwnerChecked      Feature = "owner-checked"      // release and renew check the owner in the service
	Revives           Feature = "revives"            // a renewal may revive an expired, untouched lease
	Identity          Feature = "identity"           // the client checks which server it speaks to
)

// Features lists every feature word; permits stands without its capacity.
func Features() []Feature {
	return []Feature{Wait, FIFO, Renew, AutoRenew, Fencing, LossSignal, HoldCheck, IdempotentRelease, Reentrant,
		Shared, Permits, Cancel, ClockSkew, SessionLease, StrictTry, OwnerChecked, Revives, Identity}
}

// Bounds are the promises of a lock that come as numbers. 0: not promised.
// A bound that scales with the lease has a ratio beside it; the larger counts.
type Bounds struct {
	LeaseMin, LeaseMax time.Duration // leases that are accepted; equal: fixed
	Takeover           time.Duration // after the end of a lease, a free key is obtainable within this
	Loss               time.Duration // after the end of a lease, loss is signalled within this
	LossMargin         time.Duration // loss is signalled at most this long before the end of a lease
	RenewEvery         time.Duration // interval of self-renewals
	Tolerates          time.Duration // faults shorter than this, together, lose nothing
	Cancel             time.Duration // a cancelled acquisition returns within this
	Poll               time.Duration // a waiter notices a release in another process within this
	KeyMax             int           // longest key in bytes; 0: not refused by length
	ClockRate          float64       // how much the rate of the service's clock may differ from the harness's; widens every comparison of leases

	RenewEveryRatio, LossRatio, LossMarginRatio float64 // of the granted lease

	_ struct{}
}

// LossFor is the loss bound for a granted lease.
func (b Bounds) LossFor(lease time.Duration) time.Duration { return scaled(b.Loss, b.LossRatio, lease) }

// LossMarginFor is the loss margin for a granted lease.
func (b Bounds) LossMarginFor(lease time.Duration) time.Duration {
	return scaled(b.LossMargin, b.LossMarginRatio, lease)
}

// RenewEveryFor is the renewal interval for a granted lease.
func (b Bounds) RenewEveryFor(lease time.Duration) time.Duration {
	return scaled(b.RenewEvery, b.RenewEveryRatio, lease)
}

func scaled(fixed time.Duration, ratio float64, lease time.Duration) time.Duration {
	return max(fixed, time.Duration(ratio*float64(lease)))
}

// Description is what a lock says of itself. All of it is a claim until a
// probe has proven it.
type Description struct {
	Name     string // of the lock or its library, with version
	Class    Class  // empty: lease, without hazards
	Features []Feature
	Capacity int // permits; 0 and 1: a mutex
	Hazards  []Hazard
	Bounds   Bounds

	_ struct{}
}

// Claims says whether the feature is claimed.
func (d Description) Claims(f Feature) bool { return slices.Contains(d.Features, f) }

// Validate lists everything that is wrong with the description, in one error
// that matches ErrConfig: an unknown class or feature, a hazard above the
// ceiling of the class.
func (d Description) Validate() error {
	var wrong []string
	if _, ok := d.Class.Ceiling(); !ok {
		wrong = append(wrong, fmt.Sprintf("unknown class %q", d.Class))
	}
	for _, h := range d.Hazards {
		if !slices.Contains(Hazards(), h) {
			wrong = append(wrong, fmt.Sprintf("unknown hazard %q", h))
		} else if !d.Class.Allows(h) {
			wrong = append(wrong, fmt.Sprintf("hazard %q is above the ceiling of class %q", h, d.Class))
		}
	}
	for _, f := range d.Features {
		if !slices.Contains(Features(), f) {
			wrong = append(wrong, fmt.Sprintf("unknown feature %q", f))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrConfig, strings.Join(wrong, "; "))
}
