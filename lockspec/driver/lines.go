package driver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// longestLine is the longest line that either side reads. The longest honest
// one carries a key that a case made too long on purpose.
const longestLine = 4 << 20

// lines reads the lines of one direction of the protocol.
type lines struct {
	scanner *bufio.Scanner
	partial bool // the last line had no end: its writer died in the middle of it
}

func newLines(r io.Reader) *lines {
	l := &lines{scanner: bufio.NewScanner(r)}
	l.scanner.Buffer(make([]byte, 0, 4096), longestLine)
	l.scanner.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		l.partial = atEOF && len(data) > 0 && bytes.IndexByte(data, '\n') < 0
		return bufio.ScanLines(data, atEOF)
	})
	return l
}

// next is the next line without its end, io.EOF after the last. The line is
// valid until the next call.
func (l *lines) next() ([]byte, error) {
	for l.scanner.Scan() {
		if line := bytes.TrimSpace(l.scanner.Bytes()); len(line) > 0 {
			return line, nil
		}
	}
	switch err := l.scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("a line of more than %d bytes", longestLine)
	case err != nil:
		return nil, err
	}
	return nil, io.EOF
}

// output writes lines, each in one piece and at once.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *output) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err = o.w.Write(append(line, '\n'))
	return err
}
