package postgres

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/lockcheck/lockcheck/reference/backends/relay"
)

// wire reads the protocol of PostgreSQL, version 3, without encryption
// (https://www.postgresql.org/docs/current/protocol-message-formats.html), on
// one connection. A request is what a client sends up to the point where it
// waits for the server; its reply, what the server sends until it waits.
type wire struct {
	begun bool // the first message, which has no type, has come by
}

func newWire() relay.Protocol { return &wire{} }

// operations are the words of a lock for the statements of this package.
var operations = map[string]string{acquireName: "acquire", probeName: "renew", releaseName: "release"}

// longest bounds a message; those of this package are short.
const longest = 1 << 20

var errWire = errors.New("no protocol of PostgreSQL")

// cancelCode marks a connection that asks for nothing but the end of another's
// query.
const cancelCode = 80877102

// Request implements relay.Protocol. The key is the number of the lock.
func (w *wire) Request(in *bufio.Reader) (r relay.Request, err error) {
	if !w.begun {
		w.begun = true
		if r.Raw, err = message(in, nil); err == nil && len(r.Raw) >= 8 {
			r.Silent = binary.BigEndian.Uint32(r.Raw[4:]) == cancelCode
		}
		return r, err
	}
	for {
		kind, err := in.ReadByte()
		if err != nil {
			return r, err
		}
		m, err := message(in, []byte{kind})
		if err != nil {
			return r, err
		}
		r.Raw = append(r.Raw, m...)
		switch kind {
		case 'B': // Bind
			w.bound(&r, m[5:])
		case 'Q', 'S', 'p', 'F': // Query, Sync, a password, a function call
			return r, nil
		case 'X': // Terminate
			r.Silent = true
			return r, nil
		}
	}
}

// bound reads a portal's name, its statement's, and the first value.
func (w *wire) bound(r *relay.Request, body []byte) {
	_, body, _ = bytes.Cut(body, []byte{0})
	name, body, _ := bytes.Cut(body, []byte{0})
	if operations[string(name)] == "" || len(body) < 2 {
		return
	}
	formats := 2 * int(binary.BigEndian.Uint16(body))
	if body = body[2:]; len(body) < formats+6 {
		return
	}
	body = body[formats+2:]
	size := int(int32(binary.BigEndian.Uint32(body)))
	if body = body[4:]; size >= 0 && size <= len(body) {
		r.Op, r.Key = operations[string(name)], string(body[:size])
	}
}

// Reply implements relay.Protocol.
func (w *wire) Reply(in *bufio.Reader) (r relay.Reply, err error) {
	for {
		kind, err := in.ReadByte()
		if err != nil {
			return r, err
		}
		first := len(r.Raw) == 0
		m, err := message(in, []byte{kind})
		if err != nil {
			return r, err
		}
		r.Raw = append(r.Raw, m...)
		switch kind {
		case 'Z': // ReadyForQuery
			return r, nil
		case 'R': // Authentication: done, or the last word of a dialogue, are followed by more
			if code := binary.BigEndian.Uint32(append(m[5:], 0, 0, 0, 0)); code != 0 && code != 12 {
				return r, nil
			}
		case 'E': // ErrorResponse
			if fatal(m) {
				return r, nil // the connection ends
			}
		case 'A', 'N', 'S': // a notification, a notice, a setting that was changed
			if first {
				r.Unasked = true
				return r, nil
			}
		}
	}
}

// fatal: the severity is the field V, which is not translated.
func fatal(m []byte) bool {
	return bytes.Contains(m, []byte("\x00VFATAL\x00")) || bytes.Contains(m, []byte("\x00VPANIC\x00"))
}

// message reads a length, which counts itself, and what it is the length of.
func message(in *bufio.Reader, head []byte) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > longest {
		return nil, fmt.Errorf("%w: a message of %d bytes", errWire, n)
	}
	m := append(append(head, size[:]...), make([]byte, n-4)...)
	_, err := io.ReadFull(in, m[len(head)+4:])
	return m, err
}
