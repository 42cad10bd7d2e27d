package driver

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Version is the version of the protocol that this package speaks.
const Version = 1

// The operations.
const (
	opHello    = "hello"
	opAcquire  = "acquire"
	opHeld     = "held"
	opRenew    = "renew"
	opWrite    = "write"
	opSection  = "section"
	opRelease  = "release"
	opCancel   = "cancel"
	opPing     = "ping"
	opClock    = "clock"
	opShutdown = "shutdown"
)

// The events.
const (
	eventLost    = "lost"
	eventRenewed = "renewed"
	eventDoubt   = "doubt"
	eventSure    = "sure"
	eventEntered = "entered"
	eventLeft    = "left"
)

// clockMonotonic is the only word that hello's clock knows.
const clockMonotonic = "monotonic"

// Request is one line that a driver reads. Which fields an operation uses
// depends on Op; the others are not written.
type Request struct {
	ID int64  `json:"id"`
	Op string `json:"op"`

	Versions    []int    `json:"versions,omitempty"` // hello
	Node        string   `json:"node,omitempty"`
	Incarnation int      `json:"incarnation,omitempty"`
	URL         string   `json:"url,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`

	Process string             `json:"process,omitempty"`
	Lease   string             `json:"lease,omitempty"` // id of a tenure
	Key     string             `json:"key,omitempty"`
	KeyB64  []byte             `json:"key_b64,omitempty"` // a key that is no valid UTF-8
	LeaseMS Millis             `json:"lease_ms,omitempty"`
	WaitMS  Millis             `json:"wait_ms,omitempty"` // negative: no limit
	Renew   lockspec.RenewMode `json:"renew,omitempty"`
	Mode    lockspec.Mode      `json:"mode,omitempty"`
	Count   int                `json:"count,omitempty"`
	WorkMS  Millis             `json:"work_ms,omitempty"`

	Target   int64   `json:"target,omitempty"`    // cancel: id of an open request
	Service  bool    `json:"service,omitempty"`   // ping: ask the lock service too
	OffsetMS Millis  `json:"offset_ms,omitempty"` // clock
	Rate     float64 `json:"rate,omitempty"`
	Release  bool    `json:"release,omitempty"` // shutdown
}

// MarshalJSON writes what the operation uses. The key of an acquisition is
// always written: "" is a key too, which the lock may refuse, and a driver in
// another language must not have to tell it from a missing one.
func (r Request) MarshalJSON() ([]byte, error) {
	type plain Request
	if (r.Op == opAcquire || r.Op == opSection) && r.Key == "" && r.KeyB64 == nil {
		return json.Marshal(struct {
			plain
			Key string `json:"key"`
		}{plain: plain(r)})
	}
	return json.Marshal(plain(r))
}

// Reply is the one answer to a request.
type Reply struct {
	ID      int64            `json:"id"`
	Outcome lockspec.Outcome `json:"outcome"`
	Effect  string           `json:"effect,omitempty"` // "none": an unknown outcome that surely did nothing
	Message string           `json:"message,omitempty"`

	Lease    string   `json:"lease,omitempty"`
	Token    Token    `json:"token,omitempty"`
	LeaseMS  Millis   `json:"lease_ms,omitempty"` // granted; absent: held by a session
	LeftMS   *Millis  `json:"lease_left_ms,omitempty"`
	SentNS   Nanos    `json:"sent_ns,omitempty"`
	NowNS    Nanos    `json:"now_ns,omitempty"`
	Features []string `json:"features,omitempty"` // of hello, or of a handle that differs
	Bounds   *Bounds  `json:"bounds,omitempty"`

	Version      int               `json:"version,omitempty"` // hello
	Name         string            `json:"name,omitempty"`
	Class        lockspec.Class    `json:"class,omitempty"`
	Hazards      []lockspec.Hazard `json:"hazards,omitempty"`
	Clock        string            `json:"clock,omitempty"`
	MaxProcesses int               `json:"max_processes,omitempty"`
}

// Event is a line of a driver that answers nothing.
type Event struct {
	Event    string   `json:"event"`
	Lease    string   `json:"lease,omitempty"`
	Request  int64    `json:"request,omitempty"` // entered, left: the section's request, where sections are open at the same time
	Reason   string   `json:"reason,omitempty"`  // lost
	DriverNS Nanos    `json:"driver_ns,omitempty"`
	LeaseMS  Millis   `json:"lease_ms,omitempty"` // renewed, entered
	SentNS   Nanos    `json:"sent_ns,omitempty"`
	Token    Token    `json:"token,omitempty"` // entered
	Features []string `json:"features,omitempty"`
}

// noEffect is the only word that Reply.Effect knows.
const noEffect = "none"

// acquisition asks for what r asks for.
func acquisition(op, process string, r lockspec.Request) Request {
	q := Request{Op: op, Process: process, LeaseMS: Millis(r.Lease), WaitMS: Millis(r.Wait), Renew: r.Renew, Mode: r.Mode, Count: r.Count}
	if r.Wait < 0 {
		q.WaitMS = Millis(-time.Millisecond)
	}
	if utf8.ValidString(r.Key) {
		q.Key = r.Key
	} else {
		q.KeyB64 = []byte(r.Key)
	}
	return q
}

// acquisition is what q asks a lock for.
func (q *Request) acquisition() lockspec.Request {
	r := lockspec.Request{Key: q.Key, Lease: time.Duration(q.LeaseMS), Wait: time.Duration(q.WaitMS), Renew: q.Renew, Mode: q.Mode, Count: q.Count}
	if q.WaitMS < 0 {
		r.Wait = lockspec.NoLimit
	}
	if len(q.KeyB64) > 0 {
		r.Key = string(q.KeyB64)
	}
	return r
}
