package importer

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Format is a way in which a history is written.
type Format string

// The formats.
const (
	Auto       Format = "auto"
	JSONL      Format = "jsonl" // our own, see package history
	EDN        Format = "edn"
	OTLP       Format = "otlp"
	Operations Format = "porcupine"
)

// Formats lists the words of the formats.
func Formats() []string {
	return []string{string(Auto), string(JSONL), string(EDN), string(OTLP), string(Operations)}
}

// Sniff guesses the format from the first bytes of a file (a few hundred are
// enough). It never guesses wrongly for a file of our own.
func Sniff(head []byte) Format {
	head = bytes.TrimSpace(head)
	switch {
	case bytes.HasPrefix(head, []byte(`{"lockcheck"`)), bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return JSONL
	case bytes.Contains(head, []byte(`"resourceSpans"`)), bytes.Contains(head, []byte(`"resource_spans"`)):
		return OTLP
	case bytes.HasPrefix(head, []byte("{:")), bytes.HasPrefix(head, []byte("[{:")), bytes.HasPrefix(head, []byte("#jepsen")),
		bytes.HasPrefix(head, []byte("[#jepsen")), bytes.HasPrefix(head, []byte(";")):
		return EDN
	case bytes.HasPrefix(head, []byte("[")), bytes.HasPrefix(head, []byte(`{"`)):
		folded := bytes.ToLower(head)
		if bytes.Contains(folded, []byte(`"call"`)) && bytes.Contains(folded, []byte(`"input"`)) {
			return Operations
		}
	}
	return JSONL
}

// Options are the options of an import.
type Options struct {
	Lease      time.Duration // granted, where the history does not say; 0: no expiry
	ClockError time.Duration // by which the clocks may differ
	Key        string        // of operations without one; empty: "lock"
	Spans      SpanNames     // of OTLP

	_ struct{}
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Key == "" {
		out.Key = "lock"
	}
	out.Spans = out.Spans.withDefaults()
	return out
}

// Import reads a history in the format, which must not be Auto. Its errors are
// *history.SyntaxError where the file is at fault.
func Import(r io.Reader, f Format, o *Options) (*history.History, error) {
	opts := o.withDefaults()
	switch f {
	case JSONL:
		return history.ReadAll(r)
	case EDN:
		return readEDN(r, opts)
	case OTLP:
		return readOTLP(r, opts)
	case Operations:
		return readOperations(r, opts)
	}
	return nil, fmt.Errorf("unknown format %q", f)
}

// call is one operation of an imported history.
type call struct {
	op                   history.Op
	process, owner, node string
	key                  string
	from, to             stamp
	answered             bool
	outcome              lockspec.Outcome
	message              string
	token                int64
	lease                time.Duration
	mode                 lockspec.Mode
	count                int
	line                 int
	byte                 int64
}

// stamp is a moment: its place in the order of the file, which is its time
// where a file has no other order.
type stamp struct{ place, time int64 }

// moved is the stamp d later.
func (s stamp) moved(d time.Duration) stamp { return stamp{s.place + int64(d), s.time + int64(d)} }

// entry is an event to be, with what decides between equal places.
type entry struct {
	at    stamp
	phase int // of equal places, the lower comes first
	n     int // its call
	ends  bool
}

// history puts the calls of a file in order. Between equal places invocations
// come before returns, so that whatever ties is concurrent; but an operation of
// a process that begins when its last one ended comes after that, so that a
// hold of no length lies inside whatever is strictly around it.
func build(calls []call, o Options) (*history.History, error) {
	h := &history.History{Header: history.Header{Version: history.FormatVersion, Clock: "imported", Class: lockspec.Leased, Eps: history.DefaultEps + o.ClockError}}
	if o.Lease == 0 && !slices.ContainsFunc(calls, func(c call) bool { return c.lease != 0 }) {
		h.Header.Class = lockspec.Memory
	}
	entries := order(calls)
	b := builder{calls: calls, o: o, current: map[string]string{}}
	var check history.Validator
	for _, en := range entries {
		e := b.event(en)
		if err := check.Check(&e); err != nil {
			c := calls[en.n]
			return nil, &history.SyntaxError{Line: c.line, Byte: c.byte, Problem: err.Error()}
		}
		h.Events = append(h.Events, e)
	}
	return h, nil
}

func order(calls []call) []entry {
	ended := map[string]int64{} // the last return of each process
	var entries []entry
	byStart := make([]int, len(calls))
	for n := range calls {
		byStart[n] = n
	}
	slices.SortStableFunc(byStart, func(a, b int) int { return compare(calls[a].from.place, calls[b].from.place) })
	for _, n := range byStart {
		c := &calls[n]
		en := entry{at: c.from, n: n}
		if last, ok := ended[c.process]; ok && last == c.from.place {
			en.phase = 2
		}
		entries = append(entries, en)
		if c.answered {
			entries = append(entries, entry{at: c.to, phase: en.phase + 1, n: n, ends: true})
			ended[c.process] = c.to.place
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		if d := compare(a.at.place, b.at.place); d != 0 {
			return d
		}
		return a.phase - b.phase
	})
	return entries
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// builder gives events their indices and tenures.
type builder struct {
	calls   []call
	o       Options
	index   int64
	time    int64
	tenures int
	current map[string]string // by process: what it holds, or held last
}

func (b *builder) event(en entry) history.Event {
	c := &b.calls[en.n]
	if b.index == 0 {
		b.time = en.at.time
	}
	b.time = max(b.time, en.at.time)
	e := history.Event{Index: b.index, Time: b.time, Process: c.process, Owner: c.owner, Node: c.node, Key: c.key, Op: c.op,
		Type: history.Invoke, Mode: c.mode, Count: c.count}
	b.index++
	if c.op != history.Acquire {
		e.Tenure = b.current[c.process]
	}
	if !en.ends {
		return e
	}
	if e.Type = history.ReturnType(c.outcome); e.Type != history.OK {
		e.Error, e.Message = c.outcome, c.message
		return e
	}
	e.Token, e.Lease = c.token, c.lease
	switch {
	case c.op == history.Acquire:
		b.tenures++
		e.Tenure = fmt.Sprintf("t%d", b.tenures)
		b.current[c.process] = e.Tenure
		fallthrough
	case c.op == history.Renew:
		if e.Lease == 0 {
			e.Lease = b.o.Lease
		}
	case c.op == history.Release:
		delete(b.current, c.process)
	}
	return e
}
