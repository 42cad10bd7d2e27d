package reference

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// ErrReleased is the cause of a lease's end that its holder asked for. It
// matches lockspec.ErrNotHeld.
var ErrReleased = fmt.Errorf("%w: released", lockspec.ErrNotHeld)

// ErrClosed is the answer of an engine that was closed. It matches
// lockspec.ErrUnavailable.
var ErrClosed = fmt.Errorf("%w: engine closed", lockspec.ErrUnavailable)

// ErrNotSent in the chain of a backend's error says that the request surely
// never left: there is nothing to clean up.
var ErrNotSent = errors.New("request not sent")

// Error is how an operation of an [Engine] or a [Lease] failed. It matches its
// Kind, and its cause where that is known: a backend's own error, or the end
// of a context.
//
// The message names the cause by its type only. Causes routinely quote keys
// and connection strings; who wants their text unwraps them, or sets
// Options.CauseText.
type Error struct {
	Op       string // acquire, try-acquire, renew, release
	Kind     error  // one of lockspec's errors; nil for a cancelled call and a panic
	Attempts int    // how often the backend was asked
	Err      error  // the cause; nil where Kind says it all

	text bool
}

// failure is an Error of this engine. A backend's error becomes a cause that
// has no say in the outcome.
func (e *Engine) failure(op string, attempts int, kind, err error) error {
	if err != nil && err != ErrClosed && !(kind == nil && isContext(err)) {
		err = cause{err}
	}
	return &Error{Op: op, Kind: kind, Attempts: attempts, Err: err, text: e.opts.CauseText}
}

// cause is a backend's error. It is found by errors.As, and by errors.Is too,
// but for the words of the contract and the ends of contexts: those are the
// engine's to say. A socket's time-out, for one, is context.DeadlineExceeded
// to errors.Is, and yet no caller's context ended.
type cause struct{ err error }

func (c cause) Error() string      { return c.err.Error() }
func (c cause) As(target any) bool { return errors.As(c.err, target) }

func (c cause) Is(target error) bool {
	if isContext(target) {
		return false
	}
	for _, row := range lockspec.Outcomes() {
		if row.Err == target {
			return false
		}
	}
	return errors.Is(c.err, target)
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// join is errors.Join, but leaves one error as it is.
func join(a, b error) error {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	return errors.Join(a, b)
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Kind != nil {
		b.WriteString(": " + e.Kind.Error())
	}
	if e.Err != nil {
		b.WriteString(": " + e.cause())
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (%d attempts)", e.Attempts)
	}
	return b.String()
}

func (e *Error) cause() string {
	c, foreign := e.Err.(cause)
	if !foreign || e.text || c.err == errTooLate || c.err == errNoAnswer {
		return e.Err.Error()
	}
	return fmt.Sprintf("%T", root(c.err))
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error {
	var all []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// root is the innermost error of a chain: its type says most.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// Reason says why a tenure was lost.
type Reason string

// The reasons of a loss.
const (
	Expired        Reason = "expired"         // not renewed in time, or gone from the service
	TakenOver      Reason = "taken over"      // the service says that another holds the key
	ConnectionLost Reason = "connection lost" // the session that held the key is gone
	MaxHold        Reason = "max hold"        // AcquireOptions.MaxHold has passed
)

// LostError is how a tenure ended that was not released. It matches
// lockspec.ErrLost.
type LostError struct {
	Reason Reason
	Token  int64         // the tenure's fencing token; 0: none
	After  time.Duration // how long the tenure had lasted
	Err    error         // what the backend said, if it said something
}

func (e *LostError) Error() string { return lockspec.ErrLost.Error() + ": " + string(e.Reason) }

// Is matches lockspec.ErrLost.
func (e *LostError) Is(target error) bool { return target == lockspec.ErrLost }

// Unwrap gives what the backend said.
func (e *LostError) Unwrap() error { return e.Err }

// PanicError is a backend's panic.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return "lock backend panicked" }
