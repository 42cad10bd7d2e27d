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

// eventFields are the names of an event's fields in a line, each at its number,
// by which a repetition is noticed. key_b64 is another spelling of the key.
var eventFields = [...]string{
	"index", "time_ns", "type", "op", "case", "process", "owner", "node", "incarnation", "key", "tenure", "mode",
	"count", "renew", "ask_ns", "wait_ns", "lease_ns", "lease_left_ns", "token", "error", "effect", "message", "reason",
	"sent_ns", "driver_ns", "id", "fault", "hazard", "targets", "phase", "origin", "from_ns", "to_ns", "register",
	"kind", "version", "based_on", "accepted", "of", "outcome",
}

const (
	keyField = 9
	noField  = uint(len(eventFields))
)

// fieldNumber finds a field by its name; noField if there is none.
func fieldNumber(name string) uint {
	if n, ok := fieldNumbers[name]; ok {
		return n
	}
	return noField
}

var fieldNumbers = func() map[string]uint {
	m := make(map[string]uint, noField)
	for n, name := range eventFields {
		m[name] = uint(n)
	}
	return m
}()

// field finds an event's field by its name in a line, for the decoder that
// takes any line. An unknown name has no destination.
func field(e *Event, name string) (dst any, number uint) {
	if name == "key_b64" {
		return (*base64Field)(&e.Key), keyField
	}
	n := fieldNumber(name)
	return place(e, n), n
}

// place is where the field of a number is kept. Both decoders find it here.
func place(e *Event, number uint) any {
	switch number {
	case 0:
		return &e.Index
	case 1:
		return &e.Time
	case 2:
		return (*string)(&e.Type)
	case 3:
		return (*string)(&e.Op)
	case 4:
		return &e.Case
	case 5:
		return &e.Process
	case 6:
		return &e.Owner
	case 7:
		return &e.Node
	case 8:
		return &e.Instance
	case 9:
		return &e.Key
	case 10:
		return &e.Tenure
	case 11:
		return (*string)(&e.Mode)
	case 12:
		return &e.Count
	case 13:
		return (*string)(&e.Renewal)
	case 14:
		return (*int64)(&e.Ask)
	case 15:
		return (*int64)(&e.Wait)
	case 16:
		return (*int64)(&e.Lease)
	case 17:
		return (*int64)(&e.Left)
	case 18:
		return (*tokenField)(&e.Token)
	case 19:
		return (*string)(&e.Error)
	case 20:
		return &e.Effect
	case 21:
		return &e.Message
	case 22:
		return &e.Reason
	case 23:
		return &e.Sent
	case 24:
		return &e.Driver
	}
	return happening(e, number)
}

// happening finds the fields that only events other than operations use.
func happening(e *Event, number uint) any {
	switch number {
	case 25:
		return &e.ID
	case 26:
		return &e.Fault
	case 27:
		return (*string)(&e.Hazard)
	case 28:
		return &e.Targets
	case 29:
		return (*string)(&e.Phase)
	case 30:
		return (*string)(&e.Origin)
	case 31:
		return &e.From
	case 32:
		return &e.To
	case 33:
		return &e.Register
	case 34:
		return &e.Kind
	case 35:
		return &e.Version
	case 36:
		return &e.BasedOn
	case 37:
		return (*verdictField)(&e.Accepted)
	case 38:
		return &e.Of
	case 39:
		return (*string)(&e.Outcome)
	}
	return nil
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
