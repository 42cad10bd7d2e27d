package memory

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// The protocol is JSON lines over TCP. Both ports speak it: a client writes
// requests, the server writes one reply for each, with the request's id and not
// necessarily in order. Requests of one connection are applied in their order,
// unless a fault holds one back. A line is at most 64 KiB. Times are
// nanoseconds; leases are counted on the server's clock, from the moment a
// request is applied.
//
//	→ {"id":1,"op":"acquire","key":"k","owner":"o","lease_ns":500000000}
//	← {"id":1,"outcome":"ok","token":41,"lease_ns":500000000}
//	← {"id":1,"outcome":"busy"}
//	→ {"id":2,"op":"renew","key":"k","owner":"o","lease_ns":500000000}
//	← {"id":2,"outcome":"ok","lease_ns":500000000}
//	← {"id":2,"outcome":"not-held","reason":"taken over"}     or "expired"
//	→ {"id":3,"op":"release","key":"k","owner":"o"}           answers as renew does
//	→ {"id":4,"op":"delete","key":"k"}                        frees it whoever holds it: ok, or not-held
//	→ {"id":5,"op":"get","key":"k"}                           ← {"id":5,"outcome":"ok","owner":"o"}; none: nobody holds it
//	→ {"id":6,"op":"ping"}
//
// acquire also takes "mode":"read", "count" and "limit": count permits of a
// key that has limit of them; and "waits":true of a writer that comes back if it
// is refused, and keeps new readers out until then. Acquiring what the owner holds already renews it
// and answers the same token. A key that is no valid UTF-8 travels as
// "key_b64". A request that makes no sense is answered "config", an unknown op
// "unsupported", each with a "message"; a line that is no JSON ends the
// connection.
//
// The admin port adds:
//
//	→ {"id":1,"op":"count","of":"renew","key":"k"}            requests read on the data port; of and key are optional
//	← {"id":1,"outcome":"ok","count":3}
//	→ {"id":2,"op":"fault","fault":"drop-reply","of":"acquire","key":"k","times":1}
//	← {"id":2,"outcome":"ok","fault_id":7}
//	→ {"id":3,"op":"await","fault_id":7,"wait_ns":1000000000} ok when it has struck, timeout
//	→ {"id":4,"op":"lift","fault_id":7}                       ends it, and lets go what it holds; 0: all
//	→ {"id":5,"op":"inspect","key":"k"}
//	← {"id":5,"outcome":"ok","holders":[{"owner":"o","token":41,"left_ns":…}]}
//	→ {"id":6,"op":"seed","key":"k","owner":"x","lease_ns":…} grants the key to x, whoever holds it
//	← {"id":6,"outcome":"ok","token":42}
//	→ {"id":7,"op":"evict","key":"k"}                         ok, or not-held
//	→ {"id":8,"op":"restart"}                                 forgets every key and closes the data connections
//	→ {"id":9,"op":"shift","by_ns":…}                         every lease ends that much earlier: a clock jump
//	→ {"id":10,"op":"stall"}, {"op":"resume"}                 the data port answers nothing in between
//
// The faults are drop-request (it is read and never applied), hold-request
// (applied when the fault is lifted), drop-reply and hold-reply (the request is
// applied, its reply is never sent, or when the fault is lifted). A fault
// strikes the next requests that match of and key, times of them (0: one, -1:
// all until lifted). A delete is meant by "release" too, there and in a count:
// it stands for one.
type message struct {
	ID     int64  `json:"id"`
	Op     string `json:"op,omitempty"`
	Key    string `json:"key,omitempty"`
	KeyB64 string `json:"key_b64,omitempty"`
	Owner  string `json:"owner,omitempty"`
	Lease  int64  `json:"lease_ns,omitempty"`

	Mode  lockspec.Mode `json:"mode,omitempty"`
	Count int           `json:"count,omitempty"`
	Limit int           `json:"limit,omitempty"`
	Waits bool          `json:"waits,omitempty"`

	Of      string `json:"of,omitempty"`
	Fault   string `json:"fault,omitempty"`
	FaultID int64  `json:"fault_id,omitempty"`
	Times   int    `json:"times,omitempty"`
	Wait    int64  `json:"wait_ns,omitempty"`
	By      int64  `json:"by_ns,omitempty"`

	Outcome lockspec.Outcome `json:"outcome,omitempty"`
	Reason  reference.Reason `json:"reason,omitempty"`
	Message string           `json:"message,omitempty"`
	Token   int64            `json:"token,omitempty"`
	Holders []wireHolder     `json:"holders,omitempty"`
}

type wireHolder struct {
	Owner string        `json:"owner"`
	Token int64         `json:"token"`
	Mode  lockspec.Mode `json:"mode,omitempty"`
	Count int           `json:"count,omitempty"`
	Left  int64         `json:"left_ns"`
}

const maxLine = 64 << 10

// encode makes the line of a message.
func encode(m message) ([]byte, error) {
	if !utf8.ValidString(m.Key) {
		m.KeyB64, m.Key = base64.StdEncoding.EncodeToString([]byte(m.Key)), ""
	}
	line, err := json.Marshal(m)
	if err == nil && len(line) >= maxLine {
		err = fmt.Errorf("%w: line of %d bytes", lockspec.ErrConfig, len(line))
	}
	return append(line, '\n'), err
}

// decode reads a line.
func decode(line []byte) (m message, err error) {
	if err := json.Unmarshal(line, &m); err != nil {
		return m, err
	}
	if m.KeyB64 != "" {
		key, err := base64.StdEncoding.DecodeString(m.KeyB64)
		if err != nil {
			return m, fmt.Errorf("key_b64: %w", err)
		}
		m.Key, m.KeyB64 = string(key), ""
	}
	return m, nil
}

func (m message) lease() time.Duration { return time.Duration(m.Lease) }

// answer is the reply with a store's error, or with none.
func answer(id int64, err error) message {
	m := message{ID: id, Outcome: lockspec.OutcomeOf(err)}
	var loss *reference.LostError
	if errors.As(err, &loss) {
		m.Outcome, m.Reason = lockspec.NotHeld, loss.Reason
	} else if m.Outcome != lockspec.OK && m.Outcome != lockspec.Busy {
		m.Message = err.Error()
	}
	return m
}

// err is the error of a reply.
func (m message) err() error {
	switch {
	case m.Outcome == lockspec.OK:
		return nil
	case m.Reason != "":
		return &reference.LostError{Reason: m.Reason}
	case m.Message != "":
		return fmt.Errorf("%w: %s", m.Outcome.Err(), m.Message)
	default:
		return m.Outcome.Err()
	}
}
