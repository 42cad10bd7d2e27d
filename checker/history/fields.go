package history

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Fields that travel in a shape of their own. All others are *string, *int64,
// *int or *[]string.
type (
	base64Field  string // a key that is no UTF-8
	tokenField   int64  // a number, or a decimal string
	verdictField Verdict
)

// field finds an event's field by its name in a line, and gives it a number
// below 64 by which a repetition is noticed. Both decoders find their fields
// here. An unknown name has no destination.
func field(e *Event, name string) (dst any, number uint) {
	switch name {
	case "index":
		return &e.Index, 0
	case "time_ns":
		return &e.Time, 1
	case "type":
		return (*string)(&e.Type), 2
	case "op":
		return (*string)(&e.Op), 3
	case "case":
		return &e.Case, 4
	case "process":
		return &e.Process, 5
	case "owner":
		return &e.Owner, 6
	case "node":
		return &e.Node, 7
	case "incarnation":
		return &e.Instance, 8
	case "key":
		return &e.Key, 9
	case "key_b64":
		return (*base64Field)(&e.Key), 9
	case "tenure":
		return &e.Tenure, 10
	case "mode":
		return (*string)(&e.Mode), 11
	case "count":
		return &e.Count, 12
	case "renew":
		return (*string)(&e.Renewal), 13
	case "ask_ns":
		return (*int64)(&e.Ask), 14
	case "wait_ns":
		return (*int64)(&e.Wait), 15
	case "lease_ns":
		return (*int64)(&e.Lease), 16
	case "lease_left_ns":
		return (*int64)(&e.Left), 17
	case "token":
		return (*tokenField)(&e.Token), 18
	case "error":
		return (*string)(&e.Error), 19
	case "effect":
		return &e.Effect, 20
	case "message":
		return &e.Message, 21
	case "reason":
		return &e.Reason, 22
	case "sent_ns":
		return &e.Sent, 23
	case "driver_ns":
		return &e.Driver, 24
	}
	return happening(e, name)
}

// happening finds the fields that only events other than operations use.
func happening(e *Event, name string) (dst any, number uint) {
	switch name {
	case "id":
		return &e.ID, 25
	case "fault":
		return &e.Fault, 26
	case "hazard":
		return (*string)(&e.Hazard), 27
	case "targets":
		return &e.Targets, 28
	case "phase":
		return (*string)(&e.Phase), 29
	case "origin":
		return (*string)(&e.Origin), 30
	case "from_ns":
		return &e.From, 31
	case "to_ns":
		return &e.To, 32
	case "register":
		return &e.Register, 33
	case "kind":
		return &e.Kind, 34
	case "version":
		return &e.Version, 35
	case "based_on":
		return &e.BasedOn, 36
	case "accepted":
		return (*verdictField)(&e.Accepted), 37
	case "of":
		return &e.Of, 38
	case "outcome":
		return (*string)(&e.Outcome), 39
	}
	return nil, 0
}

// required is the fields that every event has.
const required = 1<<0 | 1<<1 | 1<<2 | 1<<3

// checkWords refuses an event that lacks what every event has, or uses a word
// that no rule knows: judged without it, the history would mean something
// else.
func checkWords(e *Event, seen uint64) error {
	if seen&required != required {
		return errors.New("an event needs index, time_ns, type and op")
	}
	switch e.Type {
	case Invoke, OK, Fail, Info:
		if !e.Op.operation() {
			return fmt.Errorf("unknown op %q of type %q", e.Op, e.Type)
		}
	case Happen:
		if !e.Op.event() {
			return fmt.Errorf("unknown op %q of type %q", e.Op, e.Type)
		}
		if err := checkHappening(e); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown type %q", e.Type)
	}
	switch {
	case e.Error != "" && !e.Error.Known():
		return fmt.Errorf("unknown error %q", e.Error)
	case e.Effect != "" && e.Effect != "none":
		return fmt.Errorf("unknown effect %q", e.Effect)
	case e.Mode != "" && e.Mode != lockspec.Read && e.Mode != lockspec.Write:
		return fmt.Errorf("unknown mode %q", e.Mode)
	case e.Renewal != "" && e.Renewal != lockspec.RenewAuto && e.Renewal != lockspec.RenewManual:
		return fmt.Errorf("unknown renew %q", e.Renewal)
	}
	return nil
}

func checkHappening(e *Event) error {
	switch {
	case !oneOf(e.Phase, Start, Landed, Healing, End, Observed):
		return fmt.Errorf("unknown phase %q", e.Phase)
	case !oneOf(e.Origin, Injected, Found):
		return fmt.Errorf("unknown origin %q", e.Origin)
	case e.Hazard != "" && !slices.Contains(lockspec.Hazards(), e.Hazard):
		return fmt.Errorf("unknown hazard %q", e.Hazard)
	case !oneOf(e.Register, OpenRegister, FencedRegister):
		return fmt.Errorf("unknown register %q", e.Register)
	case e.Outcome != "" && !e.Outcome.Known():
		return fmt.Errorf("unknown outcome %q", e.Outcome)
	}
	return nil
}

// oneOf says whether the word is empty or one of the known ones.
func oneOf[T ~string](word T, known ...T) bool { return word == "" || slices.Contains(known, word) }

func (o Op) operation() bool {
	switch o {
	case Acquire, Renew, Release, Held, Write, Section, Cancel, Shutdown:
		return true
	}
	return false
}

func (o Op) event() bool {
	switch o {
	case Lost, Renewed, Doubt, Sure, Entered, Left, Exit, Fault, Register, Probe, Late, Note:
		return true
	}
	return false
}
