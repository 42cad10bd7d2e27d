package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// SyntaxError says what is wrong with a history, and where. No verdict can be
// based on such a file.
type SyntaxError struct {
	Line    int   // counted from 1
	Byte    int64 // counted from 0, of the unpacked file: where the line starts, or the exact place
	Problem string
}

// Error names the place and the problem.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, byte %d: %s", e.Line, e.Byte, e.Problem)
}

// Reader reads a history, plain or in gzip, one event at a time. It checks the
// words, the order and the structure of events (see Validator) and, at the
// end, their count and sum. Its memory does not grow with the history's
// length. It is not safe for concurrent use.
type Reader struct {
	lines     *lines
	close     func()
	header    Header
	scanner   scanner
	structure Validator
	index     int64 // of the last event
	time      int64
	events    int64
	truncated bool
	unknown   []string
	err       error // sticky
}

// NewReader reads the header. Its errors, and those of Next, are *SyntaxError
// where the file is at fault, else those of r.
func NewReader(r io.Reader) (*Reader, error) {
	src, stop, err := unpack(r)
	if err != nil {
		return nil, err
	}
	d := &Reader{lines: newLines(src), close: stop, index: -1, time: math.MinInt64}
	if err := d.readHeader(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (r *Reader) readHeader() error {
	line, err := r.line()
	switch {
	case errors.Is(err, io.EOF):
		return &SyntaxError{1, 0, r.missingHeader()}
	case err != nil:
		return err
	case bytes.HasPrefix(line, []byte("\xef\xbb\xbf")):
		return r.syntax("the file starts with a byte order mark")
	}
	h, unknown, err := parseHeader(line)
	if err != nil {
		return r.syntax(err.Error())
	}
	r.header = h
	r.ignore(unknown)
	return nil
}

func (r *Reader) missingHeader() string {
	if r.lines.rest() {
		return "the header is not a whole line"
	}
	return "the file is empty"
}

// Header is the history's header. It belongs to the reader.
func (r *Reader) Header() *Header { return &r.header }

// Next decodes the next event into e, which it overwrites. At the end it
// returns io.EOF, also where the file is truncated. After an error it returns
// the same error again.
func (r *Reader) Next(e *Event) error {
	if r.err == nil {
		r.err = r.next(e)
		if r.err != nil {
			r.Close()
		}
	}
	return r.err
}

func (r *Reader) next(e *Event) error {
	line, err := r.line()
	if errors.Is(err, io.EOF) {
		r.truncated = true
		return io.EOF
	}
	if err != nil {
		return err
	}
	seen, ok := r.scanner.scan(e, line)
	if !ok {
		var unknown []string
		if seen, unknown, err = decode(e, line); err != nil {
			return r.broken(line, err)
		}
		if slices.Contains(unknown, "lockcheck") {
			return r.end(line)
		}
		r.ignore(unknown)
	}
	return r.check(e, seen)
}

// line is the next line that is not blank.
func (r *Reader) line() ([]byte, error) {
	for {
		line, err := r.lines.next()
		switch {
		case errors.Is(err, errLongLine):
			return nil, r.syntax(err.Error())
		case errors.Is(err, errGzip):
			return nil, &SyntaxError{r.lines.count + 1, r.lines.base + int64(r.lines.start), err.Error()}
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("history: after line %d: %w", r.lines.count, err)
		case err != nil || len(bytes.TrimSpace(line)) > 0:
			return line, err
		}
	}
}

// check checks an event by itself and in its place.
func (r *Reader) check(e *Event, seen uint64) error {
	if err := checkWords(e, seen); err != nil {
		return r.syntax(err.Error())
	}
	switch {
	case e.Index <= r.index:
		return r.syntax(fmt.Sprintf("index %d after index %d: indices must rise", e.Index, r.index))
	case e.Time < r.time:
		return r.syntax(fmt.Sprintf("time_ns %d after time_ns %d: time must not run backwards", e.Time, r.time))
	}
	r.index, r.time = e.Index, e.Time
	r.events++
	if err := r.structure.Check(e); err != nil {
		return r.syntax(err.Error())
	}
	return nil
}

// end checks the end line.
func (r *Reader) end(line []byte) error {
	var end endLine
	if err := json.Unmarshal(line, &end); err != nil {
		return r.broken(line, err)
	}
	switch sum := fmt.Sprintf("%x", r.lines.sumBefore()); {
	case end.Lockcheck == headerWord:
		return r.syntax("a second header: one file holds one history")
	case end.Lockcheck != endWord || end.Events == nil:
		return r.syntax(fmt.Sprintf("neither an event nor an end line: lockcheck is %q", end.Lockcheck))
	case *end.Events != r.events:
		return r.syntax(fmt.Sprintf("the end line counts %d events, the file has %d", *end.Events, r.events))
	case !strings.EqualFold(end.SHA256, sum):
		return r.syntax(fmt.Sprintf("the end line's sha256 is %q, that of the file %s: it was changed", end.SHA256, sum))
	case r.lines.rest():
		at := r.lines.base + int64(r.lines.start)
		return &SyntaxError{r.lines.count + 1, at, "something follows the end line"}
	}
	if err := r.lines.err; !errors.Is(err, io.EOF) {
		return fmt.Errorf("history: after the end line: %w", err)
	}
	return io.EOF
}

func (r *Reader) syntax(problem string) error {
	return &SyntaxError{r.lines.count, r.lines.offset(), problem}
}

// broken names the exact byte of a line that is no JSON, where it is known.
func (r *Reader) broken(line []byte, err error) error {
	at := int64(0)
	if i := bytes.IndexByte(line, 0); i >= 0 {
		return &SyntaxError{r.lines.count, r.lines.offset() + int64(i), "a NUL byte"}
	}
	if s := (*json.SyntaxError)(nil); errors.As(err, &s) {
		at = max(0, s.Offset-1)
	}
	return &SyntaxError{r.lines.count, r.lines.offset() + at, "broken line: " + err.Error()}
}

// Truncated says, once Next has returned io.EOF, whether the history has no
// end line, or a last line without newline, which was dropped. Its whole lines
// stand.
func (r *Reader) Truncated() bool { return r.truncated }

// mostNamed bounds the list of unknown fields.
const mostNamed = 32

func (r *Reader) ignore(names []string) {
	for _, n := range names {
		if len(r.unknown) < mostNamed && !slices.Contains(r.unknown, n) {
			r.unknown = append(r.unknown, n)
		}
	}
}

// Warnings is what was ignored so far: one warning that names every unknown
// field.
func (r *Reader) Warnings() []string {
	if len(r.unknown) == 0 {
		return nil
	}
	names := slices.Sorted(slices.Values(r.unknown))
	return []string{"unknown fields ignored: " + strings.Join(names, ", ")}
}

// Close stops the unpacking of a gzip file. Only a reader that is dropped
// before Next has returned an error needs it. It does not close what it reads
// from.
func (r *Reader) Close() { r.close() }

// History is a whole history in memory.
type History struct {
	Header    Header
	Events    []Event
	Truncated bool
	Warnings  []string
}

// ReadAll reads a whole history. Its errors are those of NewReader and Next.
func ReadAll(r io.Reader) (*History, error) {
	d, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var events []Event
	for {
		events = append(events, Event{})
		if err := d.Next(&events[len(events)-1]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	return &History{d.header, events[:len(events)-1], d.truncated, d.Warnings()}, nil
}
