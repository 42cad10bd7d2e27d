package importer

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// readEDN reads a history of Jepsen: a vector of maps, or a map a line. Its
// order is that of the file. Its times may run backwards by what passes between
// a worker's look at the clock and its turn to write; they are used only where
// a lease is measured or a clock error is given.
//
// Operations are acquire and release, or lock and unlock, and renew. The owner,
// the token and the key are taken from :value where it has them: a number is a
// token, [k v] a key and a value, a map names them. What the nemesis did excuses
// nothing here; the notes of it stand in the history for the reader.
func readEDN(r io.Reader, o Options) (*history.History, error) {
	src, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	j := &jepsen{reader: reader{src: src}, o: o, open: map[string]int{}, seen: map[int64]bool{}}
	if err := j.read(); err != nil {
		return nil, err
	}
	if len(j.calls) == 0 && j.entries == 0 {
		return nil, j.fail(0, "the file holds no operation")
	}
	h, err := build(j.calls, o)
	if err != nil {
		return nil, err
	}
	if j.notes > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%d events of the nemesis excuse nothing", j.notes))
	}
	if j.skipped > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%d events of operations that are none of a lock's were ignored", j.skipped))
	}
	return h, nil
}

type jepsen struct {
	reader
	o                       Options
	calls                   []call
	open                    map[string]int // call, by process
	seen                    map[int64]bool // indices
	entries, notes, skipped int
	lines, counted          int // line breaks before the byte counted
}

// read takes the maps one by one, so that a file is never two trees in memory.
func (j *jepsen) read() error {
	inVector, closed := false, false
	for {
		if err := j.space(); err != nil {
			return err
		}
		at := j.at
		switch {
		case j.at >= len(j.src) && inVector && !closed:
			return j.fail(at, "the vector is never closed: the file was cut off")
		case j.at >= len(j.src):
			return nil
		case closed:
			return j.fail(at, "something follows the vector")
		case j.src[at] == '[' && !inVector && j.entries == 0:
			inVector = true
			j.at++
			continue
		case j.src[at] == ']' && inVector:
			closed = true
			j.at++
			continue
		}
		v, err := j.value()
		if err != nil {
			return err
		}
		d, ok := v.(dict)
		if !ok {
			return j.fail(at, "an operation must be a map")
		}
		j.entries++
		j.lines += bytes.Count(j.src[j.counted:at], []byte{'\n'})
		j.counted = at
		if err := j.operation(d, at); err != nil {
			return err
		}
	}
}

func (j *jepsen) operation(d dict, at int) error {
	process, _ := d.get("process")
	if process == keyword("nemesis") {
		j.notes++
		return nil
	}
	if process == nil {
		return j.fail(at, "an operation without :process")
	}
	if n, ok := d.get("index"); ok {
		i, isInt := n.(int64)
		if !isInt {
			return j.fail(at, ":index %v is no number", n)
		}
		if j.seen[i] {
			return j.fail(at, "index %d a second time", i)
		}
		j.seen[i] = true
	}
	f, _ := d.get("f")
	op, ok := jepsenOp(f)
	if !ok {
		j.skipped++
		return nil
	}
	kind, _ := d.get("type")
	s := stamp{place: int64(j.entries)}
	if t, ok := d.get("time"); ok {
		ns, isInt := t.(int64)
		if !isInt {
			return j.fail(at, ":time %v is no number of nanoseconds", t)
		}
		s.time = ns
	}
	return j.event(d, fmt.Sprint(process), op, kind, s, at)
}

func jepsenOp(f any) (history.Op, bool) {
	switch f {
	case keyword("acquire"), keyword("lock"):
		return history.Acquire, true
	case keyword("release"), keyword("unlock"):
		return history.Release, true
	case keyword("renew"), keyword("refresh"):
		return history.Renew, true
	}
	return "", false
}

func (j *jepsen) event(d dict, process string, op history.Op, kind any, s stamp, at int) error {
	n, isOpen := j.open[process]
	if kind == keyword("invoke") {
		if isOpen {
			return j.fail(at, "process %s invokes %s while its %s is open", process, op, j.calls[n].op)
		}
		c := call{op: op, process: process, owner: process, key: j.o.Key, from: s, line: 1 + j.lines, byte: int64(at)}
		if j.o.ClockError != 0 {
			c.from = stamp{s.time, s.time}.moved(-j.o.ClockError)
		}
		j.fill(&c, d)
		j.open[process] = len(j.calls)
		j.calls = append(j.calls, c)
		return nil
	}
	if !isOpen || j.calls[n].op != op {
		return j.fail(at, "process %s has no open %s to return from", process, op)
	}
	delete(j.open, process)
	c := &j.calls[n]
	c.to, c.answered = s, true
	if j.o.ClockError != 0 {
		c.to = stamp{s.time, s.time}.moved(j.o.ClockError)
	}
	switch kind {
	case keyword("ok"):
		c.outcome = lockspec.OK
		j.fill(c, d)
	case keyword("fail"):
		c.outcome = lockspec.Busy
		if op != history.Acquire {
			c.outcome = lockspec.NotHeld
		}
	case keyword("info"):
		c.outcome = lockspec.Unavailable
	default:
		return j.fail(at, "unknown :type %v", kind)
	}
	if e, ok := d.get("error"); ok {
		c.message = strings.TrimPrefix(fmt.Sprint(e), ":")
	}
	return nil
}

// fill takes what the map, or its value, says of owner, token, key and lease.
func (j *jepsen) fill(c *call, d dict) {
	value, _ := d.get("value")
	if v, ok := value.(vector); ok && len(v) == 2 {
		c.key, value = strings.TrimPrefix(fmt.Sprint(v[0]), ":"), v[1]
	}
	if n, ok := value.(int64); ok && c.op == history.Acquire && n > 0 {
		c.token = n
	}
	for _, m := range []any{d, value} {
		m, ok := m.(dict)
		if !ok {
			continue
		}
		if v, ok := m.get("owner"); ok && v != nil {
			c.owner = fmt.Sprint(v)
		}
		if v, ok := m.get("key"); ok && v != nil {
			c.key = fmt.Sprint(v)
		}
		if v, ok := m.get("token"); ok {
			if n, ok := v.(int64); ok {
				c.token = n
			}
		}
		if v, ok := m.get("lease-ms"); ok {
			if n, ok := v.(int64); ok {
				c.lease = time.Duration(n) * time.Millisecond
			}
		}
	}
}
