package history

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"
)

// maxExact is the largest token that travels as a JSON number: beyond 2^53
// many JSON readers would round it, so it becomes a decimal string.
const maxExact = 1 << 53

// appendEvent appends the event's line, newline included.
// AppendEvent appends the line of a stamped event, newline included, as a
// Recorder writes it.
func AppendEvent(dst []byte, e *Event) []byte { return appendEvent(dst, e) }

func appendEvent(dst []byte, e *Event) []byte {
	return appendBody(appendStamp(dst, e.Index, e.Time), e)
}

// appendStamp appends the start of a line. It is apart from the body because
// it is all that has to be encoded under the recorder's mutex.
func appendStamp(dst []byte, index, time int64) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, index, 10)
	dst = append(dst, `,"time_ns":`...)
	return strconv.AppendInt(dst, time, 10)
}

// appendBody appends all that follows the stamp. Zero fields are left out,
// except where zero is a statement: a try's wait, a register's first version, a
// reply to operation 0.
func appendBody(dst []byte, e *Event) []byte {
	dst = text(dst, `,"case":`, e.Case)
	dst = text(dst, `,"process":`, e.Process)
	dst = text(dst, `,"owner":`, e.Owner)
	dst = text(dst, `,"node":`, e.Node)
	dst = number(dst, `,"incarnation":`, int64(e.Instance))
	dst = text(dst, `,"type":`, string(e.Type))
	dst = text(dst, `,"op":`, string(e.Op))
	dst = appendKey(dst, e.Key)
	dst = text(dst, `,"tenure":`, e.Tenure)
	dst = appendLease(dst, e)
	dst = text(dst, `,"error":`, string(e.Error))
	dst = text(dst, `,"effect":`, e.Effect)
	dst = text(dst, `,"message":`, e.Message)
	dst = text(dst, `,"reason":`, e.Reason)
	dst = number(dst, `,"sent_ns":`, e.Sent)
	dst = number(dst, `,"driver_ns":`, e.Driver)
	if e.Type == Happen {
		dst = appendHappening(dst, e)
	}
	return append(dst, '}', '\n')
}

func appendKey(dst []byte, key string) []byte {
	if utf8.ValidString(key) {
		return text(dst, `,"key":`, key)
	}
	dst = append(dst, `,"key_b64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, []byte(key))
	return append(dst, '"')
}

func appendLease(dst []byte, e *Event) []byte {
	dst = text(dst, `,"mode":`, string(e.Mode))
	dst = number(dst, `,"count":`, int64(e.Count))
	dst = number(dst, `,"ask_ns":`, int64(e.Ask))
	if e.Wait != 0 || e.Type == Invoke && e.Op == Acquire {
		dst = always(dst, `,"wait_ns":`, int64(e.Wait))
	}
	dst = text(dst, `,"renew":`, string(e.Renewal))
	dst = number(dst, `,"lease_ns":`, int64(e.Lease))
	dst = number(dst, `,"lease_left_ns":`, int64(e.Left))
	if e.Token > maxExact || e.Token < -maxExact {
		dst = append(dst, `,"token":"`...)
		dst = strconv.AppendInt(dst, e.Token, 10)
		return append(dst, '"')
	}
	return number(dst, `,"token":`, e.Token)
}

// appendHappening appends the fields that only events other than operations
// use.
func appendHappening(dst []byte, e *Event) []byte {
	dst = text(dst, `,"id":`, e.ID)
	dst = text(dst, `,"fault":`, e.Fault)
	dst = text(dst, `,"hazard":`, string(e.Hazard))
	dst = appendTargets(dst, e.Targets)
	dst = text(dst, `,"phase":`, string(e.Phase))
	dst = text(dst, `,"origin":`, string(e.Origin))
	if e.From != 0 || e.To != 0 {
		dst = always(dst, `,"from_ns":`, e.From)
		dst = always(dst, `,"to_ns":`, e.To)
	}
	dst = text(dst, `,"register":`, e.Register)
	dst = text(dst, `,"kind":`, e.Kind)
	if e.Op == Register || e.Version != 0 {
		dst = always(dst, `,"version":`, e.Version)
	}
	if e.Op == Register && e.Kind == RegisterWrite || e.BasedOn != 0 {
		dst = always(dst, `,"based_on":`, e.BasedOn)
	}
	switch e.Accepted {
	case Accepted:
		dst = append(dst, `,"accepted":true`...)
	case Rejected:
		dst = append(dst, `,"accepted":false`...)
	}
	if e.Op == Late || e.Of != 0 {
		dst = always(dst, `,"of":`, e.Of)
	}
	return text(dst, `,"outcome":`, string(e.Outcome))
}

func appendTargets(dst []byte, targets []string) []byte {
	if len(targets) == 0 {
		return dst
	}
	dst = append(dst, `,"targets":`...)
	sep := byte('[')
	for _, t := range targets {
		dst = appendString(append(dst, sep), t)
		sep = ','
	}
	return append(dst, ']')
}

func text(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendString(append(dst, name...), value)
}

func number(dst []byte, name string, value int64) []byte {
	if value == 0 {
		return dst
	}
	return always(dst, name, value)
}

func always(dst []byte, name string, value int64) []byte {
	return strconv.AppendInt(append(dst, name...), value, 10)
}

// appendString appends s as a JSON string. Bytes that are no UTF-8 become
// U+FFFD, as encoding/json has it.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendEscaped(append(dst, s[:i]...), s[i:])
		}
	}
	return append(append(dst, s...), '"')
}

func appendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for _, c := range s { // an invalid byte yields utf8.RuneError
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, '"')
}
