package redis

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/lockcheck/lockcheck/reference/backends/relay"
)

// The wire format is RESP, versions 2 and 3:
// https://redis.io/docs/latest/develop/reference/protocol-spec/

// maxBulk is the longest string that a server takes by default
// (proto-max-bulk-len).
const maxBulk = 512 << 20

// wire is RESP, with the requests of a lock in it.
type wire struct{ opts *Options }

// Request implements relay.Protocol.
func (w wire) Request(in *bufio.Reader) (r relay.Request, err error) {
	var args [][]byte
	if r.Raw, args, err = readCommand(in); err == nil {
		r.Op, r.Key = w.opts.classify(args)
	}
	return r, err
}

// Reply implements relay.Protocol. NOSCRIPT makes this package send the whole
// script.
func (wire) Reply(in *bufio.Reader) (relay.Reply, error) {
	raw, err := readReply(in)
	return relay.Reply{Raw: raw, Unasked: bytes.HasPrefix(raw, []byte(">")), Again: bytes.HasPrefix(raw, []byte("-NOSCRIPT"))}, err
}

var errProtocol = errors.New("no RESP")

// readCommand reads one command: as it came, and its words. An inline command
// has words too.
func readCommand(in *bufio.Reader) (raw []byte, args [][]byte, err error) {
	var b bytes.Buffer
	line, err := readLine(in, &b)
	if err != nil {
		return nil, nil, err
	}
	if !strings.HasPrefix(line, "*") {
		return b.Bytes(), bytes.Fields([]byte(line)), nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 {
		return nil, nil, fmt.Errorf("%w: %q", errProtocol, line)
	}
	for range n {
		line, err := readLine(in, &b)
		if err != nil {
			return nil, nil, err
		}
		if !strings.HasPrefix(line, "$") {
			return nil, nil, fmt.Errorf("%w: %q", errProtocol, line)
		}
		from := b.Len()
		size, err := readBulk(in, &b, line[1:])
		if err != nil {
			return nil, nil, err
		}
		args = append(args, b.Bytes()[from:from+size])
	}
	return b.Bytes(), args, nil
}

// readReply reads one reply with all that it holds, as it came.
func readReply(in *bufio.Reader) ([]byte, error) {
	var b bytes.Buffer
	for left := 1; left > 0; left-- {
		line, err := readLine(in, &b)
		if err != nil {
			return nil, err
		}
		more, err := readValue(in, &b, line)
		if err != nil {
			return nil, err
		}
		left += more
	}
	return b.Bytes(), nil
}

// readValue reads what belongs to a line and says how many values follow as
// parts of it.
func readValue(in *bufio.Reader, b *bytes.Buffer, line string) (parts int, err error) {
	if line == "" {
		return 0, fmt.Errorf("%w: empty line", errProtocol)
	}
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		return 0, nil
	case '$', '=', '!':
		_, err := readBulk(in, b, line[1:])
		return 0, err
	case '*', '~', '>', '%', '|':
		n, err := strconv.Atoi(line[1:])
		if err != nil {
			return 0, fmt.Errorf("%w: %q", errProtocol, line)
		}
		n = max(n, 0) // -1 is nil
		if line[0] == '%' || line[0] == '|' {
			n *= 2
		}
		if line[0] == '|' {
			n++ // an attribute stands before the value it belongs to
		}
		return n, nil
	}
	return 0, fmt.Errorf("%w: %q", errProtocol, line)
}

// readBulk reads a string of that length and its end; -1 is nil and has none.
func readBulk(in *bufio.Reader, b *bytes.Buffer, length string) (size int, err error) {
	size, err = strconv.Atoi(length)
	if err != nil || size > maxBulk {
		return 0, fmt.Errorf("%w: length %q", errProtocol, length)
	}
	if size < 0 {
		return 0, nil
	}
	_, err = io.CopyN(b, in, int64(size)+2)
	return size, err
}

// readLine reads a line; it is given without its end.
func readLine(in *bufio.Reader, b *bytes.Buffer) (string, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return "", err
	}
	b.Write(line)
	return strings.TrimRight(string(line), "\r\n"), nil
}
