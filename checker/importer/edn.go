package importer

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lockcheck/lockcheck/checker/history"
)

// deepest is how deep EDN may be nested: histories are flat.
const deepest = 100

// The values of EDN, as far as histories need them. A set is read as a vector,
// a tagged value as the value.
type (
	keyword string
	symbol  string
	vector  []any
	dict    []pair
)

type pair struct{ key, value any }

// get is the value of a keyword.
func (d dict) get(name string) (any, bool) {
	for _, p := range d {
		if p.key == keyword(name) {
			return p.value, true
		}
	}
	return nil, false
}

// reader reads EDN from memory.
type reader struct {
	src   []byte
	at    int
	depth int
}

func (r *reader) fail(at int, format string, args ...any) error {
	return &history.SyntaxError{Line: 1 + bytes.Count(r.src[:at], []byte{'\n'}), Byte: int64(at), Problem: fmt.Sprintf(format, args...)}
}

// space skips white space, commas, comments and discarded values.
func (r *reader) space() error {
	for r.at < len(r.src) {
		switch c := r.src[r.at]; {
		case c == ' ', c == ',', c == '\t', c == '\n', c == '\r', c == '\f':
			r.at++
		case c == ';':
			for r.at < len(r.src) && r.src[r.at] != '\n' {
				r.at++
			}
		case c == '#' && r.at+1 < len(r.src) && r.src[r.at+1] == '_':
			r.at += 2
			if _, err := r.nested(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// nested reads a value one level deeper.
func (r *reader) nested() (any, error) {
	if r.depth++; r.depth > deepest {
		return nil, r.fail(r.at, "nested more than %d deep", deepest)
	}
	defer func() { r.depth-- }()
	return r.value()
}

func (r *reader) value() (any, error) {
	if err := r.space(); err != nil {
		return nil, err
	}
	if r.at >= len(r.src) {
		return nil, r.fail(r.at, "the file ends within a value")
	}
	switch c := r.src[r.at]; c {
	case '{':
		return r.dict()
	case '[':
		return r.list(']')
	case '(':
		return r.list(')')
	case '"':
		return r.text()
	case '#':
		return r.tagged()
	case '^':
		r.at++
		if _, err := r.nested(); err != nil { // metadata
			return nil, err
		}
		return r.nested()
	case ']', ')', '}':
		return nil, r.fail(r.at, "%q closes nothing", c)
	case '\\':
		return r.char()
	}
	return r.atom()
}

func (r *reader) list(end byte) (any, error) {
	start := r.at
	r.at++
	out := vector{}
	for {
		if err := r.space(); err != nil {
			return nil, err
		}
		if r.at >= len(r.src) {
			return nil, r.fail(start, "a list is never closed")
		}
		if r.src[r.at] == end {
			r.at++
			return out, nil
		}
		v, err := r.nested()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
}

func (r *reader) dict() (any, error) {
	start := r.at
	all, err := r.list('}')
	if err != nil {
		return nil, err
	}
	list := all.(vector)
	if len(list)%2 != 0 {
		return nil, r.fail(start, "a map with a key that has no value")
	}
	out := dict{}
	for i := 0; i < len(list); i += 2 {
		out = append(out, pair{list[i], list[i+1]})
	}
	return out, nil
}

func (r *reader) tagged() (any, error) {
	r.at++
	if r.at < len(r.src) && r.src[r.at] == '{' {
		return r.list('}') // a set
	}
	if _, err := r.atom(); err != nil {
		return nil, err
	}
	return r.nested()
}

func (r *reader) text() (any, error) {
	start := r.at
	r.at++
	var b strings.Builder
	for r.at < len(r.src) {
		c := r.src[r.at]
		r.at++
		switch {
		case c == '"':
			return b.String(), nil
		case c == '\\' && r.at < len(r.src):
			if err := r.escape(&b); err != nil {
				return nil, err
			}
		default:
			b.WriteByte(c)
		}
	}
	return nil, r.fail(start, "a string is never closed")
}

func (r *reader) escape(b *strings.Builder) error {
	c := r.src[r.at]
	r.at++
	switch c {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case '"', '\\':
		b.WriteByte(c)
	case 'u':
		if r.at+4 > len(r.src) {
			return r.fail(r.at, "a \\u escape is cut off")
		}
		n, err := strconv.ParseUint(string(r.src[r.at:r.at+4]), 16, 32)
		if err != nil {
			return r.fail(r.at, "a \\u escape needs four hexadecimal digits")
		}
		r.at += 4
		b.WriteRune(rune(n))
	default:
		return r.fail(r.at-1, "unknown escape \\%c", c)
	}
	return nil
}

func (r *reader) char() (any, error) {
	r.at++
	if r.at >= len(r.src) {
		return nil, r.fail(r.at, "a character is cut off")
	}
	start := r.at
	_, n := utf8.DecodeRune(r.src[r.at:])
	r.at += n
	for r.at < len(r.src) && !delimiter(r.src[r.at]) {
		r.at++
	}
	return string(r.src[start:r.at]), nil
}

func delimiter(c byte) bool { return strings.IndexByte(" ,\t\n\r\f\"{}[]();", c) >= 0 }

func (r *reader) atom() (any, error) {
	start := r.at
	for r.at < len(r.src) && !delimiter(r.src[r.at]) {
		if r.src[r.at] == 0 {
			return nil, r.fail(r.at, "a NUL byte")
		}
		r.at++
	}
	word := string(r.src[start:r.at])
	switch {
	case word == "" && start == len(r.src):
		return nil, r.fail(start, "the file ends within a value")
	case word == "":
		return nil, r.fail(start, "unexpected %q", r.src[start])
	case word[0] == ':':
		return keyword(word[1:]), nil
	case word == "nil":
		return nil, nil
	case word == "true", word == "false":
		return word == "true", nil
	}
	if c := strings.TrimLeft(word, "+-"); c != "" && c[0] >= '0' && c[0] <= '9' {
		if n, err := strconv.ParseInt(strings.TrimRight(word, "NM"), 10, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(strings.TrimRight(word, "NM"), 64)
		if err != nil {
			return nil, r.fail(start, "%q is no number", word)
		}
		return f, nil
	}
	return symbol(word), nil
}
