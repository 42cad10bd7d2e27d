package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// operationLine is one operation, named as porcupine names its fields; case
// does not matter.
type operationLine struct {
	ClientID json.RawMessage `json:"ClientId"`
	Client   json.RawMessage `json:"client_id"`
	Input    inputLine       `json:"Input"`
	Call     *int64          `json:"Call"`
	Output   outputLine      `json:"Output"`
	Return   *int64          `json:"Return"`
}

type inputLine struct {
	Op      string        `json:"op"`
	Key     string        `json:"key"`
	Owner   string        `json:"owner"`
	Mode    lockspec.Mode `json:"mode"`
	Count   int           `json:"count"`
	LeaseMS float64       `json:"lease_ms"`
}

type outputLine struct {
	OK      *bool            `json:"ok"`
	Outcome lockspec.Outcome `json:"outcome"`
	Token   int64            `json:"token"`
}

// UnmarshalJSON also takes the word of the operation alone.
func (i *inputLine) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &i.Op)
	}
	type plain inputLine
	return json.Unmarshal(b, (*plain)(i))
}

// UnmarshalJSON also takes a truth value or an outcome word alone.
func (o *outputLine) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "true" || string(b) == "false":
		ok := string(b) == "true"
		o.OK = &ok
		return nil
	case len(b) > 0 && b[0] == '"':
		return json.Unmarshal(b, &o.Outcome)
	}
	type plain outputLine
	return json.Unmarshal(b, (*plain)(o))
}

// readOperations reads a list of operations, or one a line: ClientId, Input,
// Call, Output, Return, times in nanoseconds. Input is an operation's word, or
// an object with op, key, owner, mode, count, lease_ms; Output is true, false,
// an outcome word or an object with ok or outcome, and token. An operation
// without a Return, or with one of -1 or the largest integer, is unknown.
func readOperations(r io.Reader, o Options) (*history.History, error) {
	src, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var calls []call
	err = eachJSON(src, func(raw json.RawMessage, at int64) error {
		c, err := operation(raw, o)
		if err != nil {
			return err
		}
		c.line, c.byte = lineOf(src, at), at
		calls = append(calls, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return build(calls, o)
}

// eachJSON calls do for every element of a JSON array, or every value of a
// stream of them, and says where an error was.
func eachJSON(src []byte, do func(json.RawMessage, int64) error) error {
	fail := func(at int64, err error) error {
		var s *json.SyntaxError
		if errors.As(err, &s) {
			at = max(0, s.Offset-1)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			at = int64(len(src))
		}
		return &history.SyntaxError{Line: lineOf(src, at), Byte: at, Problem: err.Error()}
	}
	if n := bytes.IndexByte(src, 0); n >= 0 {
		return fail(int64(n), errors.New("a NUL byte"))
	}
	d := json.NewDecoder(bytes.NewReader(src))
	array := bytes.HasPrefix(bytes.TrimSpace(src), []byte("["))
	if array {
		if _, err := d.Token(); err != nil {
			return fail(0, err)
		}
	}
	n := 0
	for d.More() {
		at := d.InputOffset()
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return fail(at, err)
		}
		at = d.InputOffset() - int64(len(raw))
		if err := do(raw, at); err != nil {
			return fail(at, err)
		}
		n++
	}
	if array {
		if _, err := d.Token(); err != nil {
			return fail(d.InputOffset(), errors.New("the list is never closed"))
		}
	}
	if n == 0 {
		return fail(0, errors.New("the file holds nothing"))
	}
	return nil
}

func lineOf(src []byte, at int64) int {
	return 1 + bytes.Count(src[:min(at, int64(len(src)))], []byte{'\n'})
}

func operation(raw json.RawMessage, o Options) (call, error) {
	var l operationLine
	if err := json.Unmarshal(raw, &l); err != nil {
		return call{}, err
	}
	client := string(bytes.Trim(append(l.ClientID, l.Client...), `"`))
	c := call{process: client, owner: l.Input.Owner, key: l.Input.Key, mode: l.Input.Mode, count: l.Input.Count,
		lease: time.Duration(l.Input.LeaseMS * float64(time.Millisecond)), token: l.Output.Token}
	switch l.Input.Op {
	case "acquire", "lock":
		c.op = history.Acquire
	case "release", "unlock":
		c.op = history.Release
	case "renew", "refresh":
		c.op = history.Renew
	default:
		return c, fmt.Errorf("unknown operation %q; the operations are acquire, release, renew", l.Input.Op)
	}
	switch {
	case client == "":
		return c, errors.New("an operation without ClientId")
	case l.Call == nil:
		return c, errors.New("an operation without Call")
	case l.Return != nil && *l.Return >= 0 && *l.Return < *l.Call:
		return c, fmt.Errorf("it returned at %d, before it was called at %d", *l.Return, *l.Call)
	}
	c.from = stamp{*l.Call, *l.Call}.moved(-o.ClockError)
	if c.owner == "" {
		c.owner = client
	}
	if c.key == "" {
		c.key = o.Key
	}
	if l.Return == nil || *l.Return < 0 || *l.Return == math.MaxInt64 {
		return c, nil
	}
	c.to, c.answered = stamp{*l.Return, *l.Return}.moved(o.ClockError), true
	var err error
	c.outcome, err = l.Output.outcome(c.op)
	return c, err
}

func (o outputLine) outcome(op history.Op) (lockspec.Outcome, error) {
	switch {
	case o.Outcome != "" && !o.Outcome.Known():
		return "", fmt.Errorf("unknown outcome %q", o.Outcome)
	case o.Outcome != "":
		return o.Outcome, nil
	case o.OK == nil:
		return lockspec.Unavailable, nil
	case *o.OK:
		return lockspec.OK, nil
	case op == history.Acquire:
		return lockspec.Busy, nil
	}
	return lockspec.NotHeld, nil
}
