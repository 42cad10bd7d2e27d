package history

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Type says what an event is: the invocation of an operation, one of its three
// kinds of return, or something that happened by itself.
type Type string

// The event types.
const (
	Invoke Type = "invoke"
	OK     Type = "ok"    // it happened
	Fail   Type = "fail"  // refused: it surely had no effect (release, renew: the caller is no holder)
	Info   Type = "info"  // unknown: it may have had an effect
	Happen Type = "event" // no operation
)

// Op is the operation of an invocation or a return, or the name of an event.
type Op string

// The operations.
const (
	Acquire  Op = "acquire"
	Renew    Op = "renew"
	Release  Op = "release"
	Held     Op = "held"
	Write    Op = "write"
	Section  Op = "section"
	Cancel   Op = "cancel"
	Shutdown Op = "shutdown"
)

// The events that are no operations.
const (
	Lost     Op = "lost"     // a tenure's loss was signalled
	Renewed  Op = "renewed"  // the lock renewed by itself
	Doubt    Op = "doubt"    // a tenure's connection is in doubt
	Sure     Op = "sure"     // and is sure again
	Entered  Op = "entered"  // a section began
	Left     Op = "left"     // a section ended
	Exit     Op = "exit"     // a node's process ended
	Fault    Op = "fault"    // a fault, one event a phase
	Register Op = "register" // a read or write of the protected resource
	Probe    Op = "probe"    // a key's state as an admin connection saw it
	Late     Op = "late"     // a reply that came after the harness had given up
	Note     Op = "note"     // for the reader
)

// Phase is a moment of a fault.
type Phase string

// The phases. Start is stamped before the fault is applied, End after its
// healing is confirmed, so that the interval of a fault is never too short.
// A fault without a Landed event struck nothing and excuses nothing.
const (
	Start    Phase = "start"
	Landed   Phase = "landed"
	Healing  Phase = "healing"
	End      Phase = "end"
	Observed Phase = "observed" // one event for the whole, with From and To
)

// Origin says whether the harness made a fault or found it.
type Origin string

// The origins.
const (
	Injected Origin = "injected"
	Found    Origin = "observed"
)

// Registers and the kinds of their events.
const (
	OpenRegister   = "open"   // accepts every write
	FencedRegister = "fenced" // refuses tokens below the highest it has seen

	RegisterRead  = "read" // of the fenced register: the seal
	RegisterWrite = "write"
)

// Verdict of a register on an access.
type Verdict int8

// The verdicts; the open register gives none.
const (
	NoVerdict Verdict = iota
	Accepted
	Rejected
)

// Event is one line of a history. Which fields an event uses depends on its
// Type and Op; the others are zero and are not written. Times are nanoseconds
// of the run (see Header.Started), durations nanoseconds.
//
// The harness stamps Index and Time under one mutex. Before and after are
// decided by Index; Time only measures leases and bounds.
type Event struct {
	Index int64
	Time  int64
	Case  string // which case recorded it; empty: it concerns every case

	Type    Type
	Op      Op
	Process string // one logical client; retired by an unknown outcome
	Owner   string // the harness's contender, which outlives its processes
	Node    string // the operating-system process it lives in
	Key     string
	Tenure  string // of every operation of a tenure; an acquire's invocation has none yet

	Mode     lockspec.Mode
	Count    int
	Ask      time.Duration      // asked lease (acquire, renew)
	Wait     time.Duration      // of an acquire's invocation; -1: no limit
	Renewal  lockspec.RenewMode // of an acquire's invocation (JSON: renew); manual: a tenure that nobody renews is not believed past its paper
	Lease    time.Duration      // granted lease; 0: held by a session
	Left     time.Duration      // what is left of a lease that the acquire did not refresh
	Token    int64
	Error    lockspec.Outcome // of fail and info
	Effect   string           // "none": an unknown outcome of which the driver is sure that it did nothing
	Message  string
	Reason   string // of a loss
	Sent     int64  // when the winning attempt, or the renewal, was sent; only from a proven clock. Of left: a moment before the work ended
	Driver   int64  // when the driver raised the event; only from a proven clock
	Instance int    // which incarnation of the node; 0 and 1: the first

	ID      string // of a fault
	Fault   string
	Hazard  lockspec.Hazard // the hazard word it maps to; empty: none
	Targets []string        // node names, "service", "key:K", "link:N", "clock:N", "clock:service"
	Phase   Phase
	Origin  Origin
	From    int64 // of an observed fault
	To      int64

	Register string
	Kind     string
	Version  int64 // after the access
	BasedOn  int64 // the version the writer had read; recorded, never enforced
	Accepted Verdict

	Of      int64            // index of the operation that a late reply answers
	Outcome lockspec.Outcome // of a late reply, or what a probe saw
}

// Returns says whether the event is the return of an operation.
func (e *Event) Returns() bool { return e.Type == OK || e.Type == Fail || e.Type == Info }

// ReturnType is the type that an outcome is recorded as.
func ReturnType(o lockspec.Outcome) Type {
	switch o.Effect() {
	case lockspec.Done:
		return OK
	case lockspec.Refused:
		return Fail
	default:
		return Info
	}
}

// Header is the first line of a history: what was tested, and against what it
// is to be judged.
type Header struct {
	Version  int
	Started  time.Time
	Clock    string // "monotonic": one clock of one machine
	BootID   string
	Seed     int64
	Target   string // redacted
	Class    lockspec.Class
	Profile  lockspec.Profile
	Capacity int // 0 and 1: a mutex
	Hazards  []lockspec.Hazard
	Claims   map[lockspec.Feature]Claim
	Bounds   lockspec.Bounds
	Eps      time.Duration // fixed part of ε; lease comparisons need more than this plus 0.1 % of the lease
	Tool     string
	Suite    string
}

// Claim is what became of a claimed feature.
type Claim string

// The states of a claim; a feature that is absent was not claimed.
const (
	Proven   Claim = "proven"
	False    Claim = "false"
	Unproven Claim = "unproven"
)

// Claimed says whether the feature is claimed and not known to be false.
func (h *Header) Claimed(f lockspec.Feature) bool {
	c, ok := h.Claims[f]
	return ok && c != False
}

// FormatVersion is the version of the history format that this package
// writes. It reads this and older ones and refuses newer ones.
const FormatVersion = 1

// DefaultEps is the fixed part of ε.
const DefaultEps = 2 * time.Millisecond
