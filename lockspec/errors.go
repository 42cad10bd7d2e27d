package lockspec

import (
	"context"
	"errors"
)

// The errors of the contract, found with errors.Is. A cancelled call matches
// its context's error instead, and never ErrBusy.
var (
	// ErrBusy: one attempt was made and the key is held, by another process or
	// by this one. Surely no grant is left.
	ErrBusy = errors.New("lock is held by another")
	// ErrTimeout: the wait elapsed and the service kept answering "held".
	// A socket time-out is ErrUnavailable, never this.
	ErrTimeout = errors.New("wait for the lock elapsed")
	// ErrUnavailable: the service gave no answer; the operation may have had
	// an effect.
	ErrUnavailable = errors.New("lock service unavailable")
	// ErrLost: the caller was holder and is no more.
	ErrLost = errors.New("lock lost")
	// ErrNotHeld: the caller is no holder.
	ErrNotHeld = errors.New("lock not held")
	// ErrInvalidKey: the key cannot be mapped to the service safely.
	ErrInvalidKey = errors.New("invalid key")
	// ErrConfig: no retry can fix this (credentials, missing table, a lease
	// out of range, a standby).
	ErrConfig = errors.New("lock misconfigured")
	// ErrUnsupported: the lock does not offer this.
	ErrUnsupported = errors.New("not supported by this lock")
)

// Outcome is the word for how an operation ended, as histories and the driver
// protocol spell it.
type Outcome string

// The outcome words. outcomes holds what each means.
const (
	OK          Outcome = "ok"
	Busy        Outcome = "busy"
	Timeout     Outcome = "timeout"
	InvalidKey  Outcome = "invalid-key"
	Config      Outcome = "config"
	Unsupported Outcome = "unsupported"
	Lost        Outcome = "lost"
	NotHeld     Outcome = "not-held"
	Unavailable Outcome = "unavailable"
	Cancelled   Outcome = "cancelled"
	Failed      Outcome = "error"
)

// Effect says what an outcome tells about the service's state.
type Effect string

// The effects.
const (
	Done    Effect = "ok"      // it happened
	Refused Effect = "refused" // for acquire: surely no grant is left
	Unknown Effect = "unknown" // it may have had an effect
)

// OutcomeRow is one line of the table of outcome words.
type OutcomeRow struct {
	Word   Outcome
	Effect Effect
	Err    error // the sentinel a Go client returns; nil where there is none
	Means  string
}

var outcomes = []OutcomeRow{
	{OK, Done, nil, "it happened"},
	{Busy, Refused, ErrBusy, "one attempt was made, the key is held"},
	{Timeout, Refused, ErrTimeout, "the wait elapsed, the key was held throughout"},
	{InvalidKey, Refused, ErrInvalidKey, "the key cannot be mapped safely"},
	{Config, Refused, ErrConfig, "no retry can fix it"},
	{Unsupported, Refused, ErrUnsupported, "the lock does not offer it"},
	{Lost, Refused, ErrLost, "release, renew, held: the caller was holder and is no more"},
	{NotHeld, Refused, ErrNotHeld, "release, renew, held: the caller is no holder"},
	{Unavailable, Unknown, ErrUnavailable, "the service gave no answer"},
	{Cancelled, Unknown, context.Canceled, "the caller gave up"},
	{Failed, Unknown, nil, "anything else went wrong"},
}

// Outcomes is the table of outcome words, in the order of formats.
func Outcomes() []OutcomeRow { return append([]OutcomeRow(nil), outcomes...) }

// Effect is what the word tells about the service's state; Unknown for a word
// that is not in the table.
func (o Outcome) Effect() Effect {
	for _, row := range outcomes {
		if row.Word == o {
			return row.Effect
		}
	}
	return Unknown
}

// Known says whether the word is in the table.
func (o Outcome) Known() bool {
	for _, row := range outcomes {
		if row.Word == o {
			return true
		}
	}
	return false
}

// Err is the error a Go client returns for the word: nil for OK, the sentinel
// where there is one, else an error that carries the word.
func (o Outcome) Err() error {
	if o == OK {
		return nil
	}
	for _, row := range outcomes {
		if row.Word == o && row.Err != nil {
			return row.Err
		}
	}
	return errors.New(string(o))
}

// OutcomeOf names the outcome of a call by its error. Context errors come
// first: a cancelled call is cancelled whatever else it wraps. An error that
// is none of the contract's is Failed, which counts as unknown.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Cancelled
	}
	for _, row := range outcomes {
		if row.Err != nil && errors.Is(err, row.Err) {
			return row.Word
		}
	}
	return Failed
}

// NoEffect says whether an error whose outcome is unknown says of itself that
// nothing was done (the protocol's "effect":"none").
func NoEffect(err error) bool {
	var n interface{ NoEffect() bool }
	return errors.As(err, &n) && n.NoEffect()
}
