package history

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// scanner decodes the lines that nearly every history consists of: strings
// without escapes, integers, known fields. It is many times as fast as
// encoding/json and takes no liberty: what it does not accept is decoded, or
// refused, by decode.
type scanner struct {
	line  []byte
	pos   int
	known pool
	next  [noField + 1]uint8 // the field that came after each the last time
}

// scan decodes a line into e. If ok is false, e is undefined and nothing is
// said about the line.
func (s *scanner) scan(e *Event, line []byte) (seen uint64, ok bool) {
	s.line, s.pos = line, 0
	*e = Event{}
	if !s.take('{') {
		return 0, false
	}
	for last := noField; ; {
		n := s.name(last)
		if n == noField || seen&(1<<n) != 0 || !s.value(place(e, n)) {
			return 0, false
		}
		seen |= 1 << n
		last = n
		if !s.take(',') {
			return seen, s.take('}') && s.peek() == 0 && s.pos == len(s.line)
		}
	}
}

// name takes a field's name and its colon. Lines of one kind have their fields
// in one order, so that the name that came after the last one before is tried
// first.
func (s *scanner) name(last uint) uint {
	n := uint(s.next[last])
	name := eventFields[n]
	if rest := s.line[s.pos:]; len(rest) > len(name)+2 && rest[0] == '"' && string(rest[1:len(name)+1]) == name &&
		rest[len(name)+1] == '"' && rest[len(name)+2] == ':' {
		s.pos += len(name) + 3
		return n
	}
	b, ok := s.string()
	if !ok || !s.take(':') {
		return noField
	}
	if n = fieldNumber(string(b)); n != noField {
		s.next[last] = uint8(n)
	}
	return n
}

func (s *scanner) value(dst any) bool {
	switch dst := dst.(type) {
	case *string:
		b, ok := s.string()
		*dst = s.known.string(b)
		return ok
	case *int64:
		return s.number(dst)
	case *int:
		var n int64
		ok := s.number(&n)
		*dst = int(n)
		return ok && int64(*dst) == n
	case *tokenField:
		return s.number((*int64)(dst))
	case *[]string:
		return s.strings(dst)
	case *verdictField:
		return s.verdict(dst)
	}
	return false // what is rare is left to decode
}

// peek skips blanks and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.line) {
		if c := s.line[s.pos]; c != ' ' && c != '\t' && c != '\r' {
			return c
		}
		s.pos++
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.pos < len(s.line) && s.line[s.pos] == c || s.peek() == c && c != 0 {
		s.pos++
		return true
	}
	return false
}

// string takes a string without escapes: plain ASCII eight bytes at a time,
// whatever else byte by byte.
func (s *scanner) string() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	from := s.pos
	for to := from; to+8 <= len(s.line); to += 8 {
		w := binary.LittleEndian.Uint64(s.line[to:])
		if special := notPlain(w); special != 0 {
			if to += bits.TrailingZeros64(special) / 8; s.line[to] == '"' {
				s.pos = to + 1
				return s.line[from:to], true
			}
			break
		}
	}
	return s.anyString()
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// notPlain marks, in the high bit of each, the bytes of w that are a quote, a
// backslash, a control character or not ASCII. The lowest mark is exact: a
// subtraction borrows from a byte only if a lower one is marked itself.
func notPlain(w uint64) uint64 {
	quote, slash := w^'"'*ones, w^'\\'*ones
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w | w) & highs
}

func (s *scanner) anyString() ([]byte, bool) {
	ascii := byte(0)
	for i, c := range s.line[s.pos:] {
		switch {
		case c == '"':
			b := s.line[s.pos : s.pos+i]
			s.pos += i + 1
			return b, ascii < utf8.RuneSelf || utf8.Valid(b)
		case c < ' ' || c == '\\':
			return nil, false
		}
		ascii |= c
	}
	return nil, false
}

// number takes an integer of at most 18 digits, which cannot overflow.
func (s *scanner) number(dst *int64) bool {
	negative := s.take('-')
	var n int64
	from := s.pos
	for s.pos+8 <= len(s.line) && s.pos < from+16 {
		eight, ok := eightDigits(binary.LittleEndian.Uint64(s.line[s.pos:]))
		if !ok {
			break
		}
		n = n*100_000_000 + int64(eight)
		s.pos += 8
	}
	for ; s.pos < len(s.line); s.pos++ {
		c := s.line[s.pos] - '0'
		if c > 9 {
			break
		}
		n = n*10 + int64(c)
	}
	digits := s.pos - from
	if digits == 0 || digits > 18 || digits > 1 && s.line[from] == '0' {
		return false
	}
	if negative {
		n = -n
	}
	*dst = n
	return true // a fraction or an exponent fails at the next comma
}

// eightDigits reads eight ASCII digits, the first in the lowest byte: pairs,
// then pairs of pairs, then those are put together by one multiplication each.
func eightDigits(w uint64) (n uint64, ok bool) {
	if w&0xf0f0f0f0f0f0f0f0|(w+0x0606060606060606)&0xf0f0f0f0f0f0f0f0>>4 != 0x3333333333333333 {
		return 0, false
	}
	w = w & 0x0f0f0f0f0f0f0f0f * (10<<8 + 1) >> 8
	w = w & 0x00ff00ff00ff00ff * (100<<16 + 1) >> 16
	return w & 0x0000ffff0000ffff * (10_000<<32 + 1) >> 32, true
}

func (s *scanner) strings(dst *[]string) bool {
	if !s.take('[') {
		return false
	}
	for {
		b, ok := s.string()
		if !ok {
			return false
		}
		*dst = append(*dst, s.known.string(b))
		if !s.take(',') {
			return s.take(']')
		}
	}
}

func (s *scanner) verdict(dst *verdictField) bool {
	s.peek()
	rest := string(s.line[s.pos:min(s.pos+5, len(s.line))])
	switch {
	case len(rest) >= 4 && rest[:4] == "true":
		*dst = verdictField(Accepted)
		s.pos += 4
	case rest == "false":
		*dst = verdictField(Rejected)
		s.pos += 5
	default:
		return false
	}
	return true
}

// pool gives equal strings back without allocating them again. It forgets: its
// size does not depend on the history's, and a collision costs an allocation.
type pool struct{ slots [4096]string }

const longestPooled = 64

func (p *pool) string(b []byte) string {
	if len(b) > longestPooled || len(b) == 0 {
		return string(b)
	}
	slot := &p.slots[mix(b)%uint64(len(p.slots))]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// mix tells strings apart, well enough for a pool.
func mix(b []byte) uint64 {
	h := uint64(len(b))
	if len(b) < 8 {
		for _, c := range b {
			h = h<<8 | uint64(c)
		}
	} else {
		for i := 8; i < len(b); i += 8 {
			h = (h ^ binary.LittleEndian.Uint64(b[i-8:])) * 0x9e3779b97f4a7c15
			h ^= h >> 32
		}
		h ^= binary.LittleEndian.Uint64(b[len(b)-8:])
	}
	h *= 0x9e3779b97f4a7c15
	return h >> 40
}
