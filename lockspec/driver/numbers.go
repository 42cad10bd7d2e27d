package driver

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Millis is a duration that travels as milliseconds, fractions allowed.
type Millis time.Duration

// MarshalJSON writes a number of milliseconds, to the nanosecond.
func (m Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(m)/float64(time.Millisecond), 'f', -1, 64), nil
}

// UnmarshalJSON reads a number of milliseconds; null is 0.
func (m *Millis) UnmarshalJSON(text []byte) error {
	if isNull(text) {
		return nil
	}
	ms, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("%s is no number of milliseconds", clip(text))
	}
	ns := math.Round(ms * float64(time.Millisecond))
	if math.Abs(ns) >= math.MaxInt64 {
		return fmt.Errorf("%s ms is out of range", clip(text))
	}
	*m = Millis(ns)
	return nil
}

// Token is a fencing token: a number up to 2^53, above that a decimal string,
// because most languages read larger numbers wrongly and say nothing. For the
// same reason a larger number is refused: the driver may already have rounded
// it. 0 is no token.
type Token int64

const exactInFloat = 1 << 53

// MarshalJSON writes a number or a decimal string.
func (t Token) MarshalJSON() ([]byte, error) {
	if t > exactInFloat {
		return fmt.Appendf(nil, `"%d"`, t), nil
	}
	return strconv.AppendInt(nil, int64(t), 10), nil
}

// UnmarshalJSON reads a number or a decimal string, exactly.
func (t *Token) UnmarshalJSON(text []byte) error {
	n, quoted, err := integer(text)
	switch {
	case err != nil:
		return fmt.Errorf("token %w", err)
	case n < 0:
		return fmt.Errorf("token %d is negative; tokens are > 0", n)
	case n > exactInFloat && !quoted:
		return fmt.Errorf("token %d is a number above 2^53; send it as a decimal string", n)
	}
	*t = Token(n)
	return nil
}

// Nanos is a reading of raw CLOCK_MONOTONIC. It is written as a number and
// read as a number or a decimal string.
type Nanos int64

// UnmarshalJSON reads a number or a decimal string.
func (n *Nanos) UnmarshalJSON(text []byte) error {
	v, _, err := integer(text)
	if err != nil {
		return fmt.Errorf("stamp %w", err)
	}
	*n = Nanos(v)
	return nil
}

func integer(text []byte) (n int64, quoted bool, err error) {
	if isNull(text) {
		return 0, false, nil
	}
	digits := text
	if len(text) >= 2 && text[0] == '"' {
		quoted, digits = true, text[1:len(text)-1]
	}
	n, err = strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0, quoted, fmt.Errorf("%s is no whole number of 64 bits", clip(text))
	}
	return n, quoted, nil
}

func isNull(text []byte) bool { return bytes.Equal(text, []byte("null")) }

// clip shortens what is quoted in an error.
func clip(text []byte) string {
	const most = 200
	if len(text) > most {
		return fmt.Sprintf("%s… (%d bytes)", text[:most], len(text))
	}
	return string(text)
}
