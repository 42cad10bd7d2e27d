package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// decode decodes any valid line, by encoding/json, and says exactly what is
// wrong with any other. unknown is the names that it ignored.
func decode(e *Event, line []byte) (seen uint64, unknown []string, err error) {
	*e = Event{}
	var whole json.RawMessage
	if err := json.Unmarshal(line, &whole); err != nil {
		return 0, nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if t, _ := dec.Token(); t != json.Delim('{') {
		return 0, nil, errors.New("not a JSON object")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return 0, nil, err
		}
		name, _ := t.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return 0, nil, err
		}
		dst, n := field(e, name)
		if dst == nil {
			unknown = append(unknown, name)
			continue
		}
		if seen&(1<<n) != 0 {
			return 0, nil, fmt.Errorf("field %q appears twice", name)
		}
		seen |= 1 << n
		if err := assign(dst, raw); err != nil {
			return 0, nil, fmt.Errorf("field %q: %w", name, err)
		}
	}
	return seen, unknown, nil
}

func assign(dst any, raw []byte) error {
	switch dst := dst.(type) {
	case *base64Field:
		var key []byte
		err := json.Unmarshal(raw, &key)
		*dst = base64Field(key)
		return wanted(err, "base64", raw)
	case *tokenField:
		return assignToken(dst, raw)
	case *verdictField:
		var yes bool
		err := json.Unmarshal(raw, &yes)
		*dst = verdictField(Rejected)
		if yes {
			*dst = verdictField(Accepted)
		}
		return wanted(err, "true or false", raw)
	case *string:
		return wanted(json.Unmarshal(raw, dst), "a string", raw)
	case *[]string:
		return wanted(json.Unmarshal(raw, dst), "a list of strings", raw)
	default:
		return wanted(json.Unmarshal(raw, dst), "an integer", raw)
	}
}

func assignToken(dst *tokenField, raw []byte) error {
	digits := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &digits); err != nil {
			return err
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if digits == "" || digits[0] == '+' {
		err = strconv.ErrSyntax
	}
	*dst = tokenField(n)
	return wanted(err, "a token", raw)
}

func wanted(err error, what string, raw []byte) error {
	if err == nil {
		return nil
	}
	const enough = 40
	return fmt.Errorf("%s is not %s", raw[:min(len(raw), enough)], what)
}
