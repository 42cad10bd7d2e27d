package history

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
)

const (
	// MaxLine is the longest line that is read, in bytes, its end included.
	MaxLine = 16 << 20

	firstBuffer = 256 << 10
)

var errLongLine = errors.New("line longer than 16 MiB")

// lines cuts a stream into lines and sums the bytes it has passed.
type lines struct {
	src     io.Reader
	buf     []byte
	base    int64 // where buf[0] stands in the stream
	first   int   // start of the last line
	start   int   // start of the next one
	scanned int   // no newline in buf[start:scanned]
	end     int
	count   int // of lines given
	sum     hash.Hash
	err     error // of the source
}

func newLines(src io.Reader) *lines {
	return &lines{src: src, buf: make([]byte, firstBuffer), sum: sha256.New()}
}

// next returns the next line without its newline, valid until the following call.
// At the end of the stream, and at a last line without newline, it is io.EOF.
func (l *lines) next() ([]byte, error) {
	for {
		i := bytes.IndexByte(l.buf[l.scanned:l.end], '\n')
		if i < 0 {
			l.scanned = l.end
		} else {
			l.scanned += i + 1
		}
		if l.scanned-l.start > MaxLine {
			l.first = l.start
			l.count++
			return nil, errLongLine
		}
		if i >= 0 {
			l.first, l.start = l.start, l.scanned
			l.count++
			return l.buf[l.first : l.start-1], nil
		}
		if !l.fill() {
			return nil, l.err
		}
	}
}

// fill reads more; false means that there is no more, see err.
func (l *lines) fill() bool {
	if l.err != nil {
		return false
	}
	if l.end == len(l.buf) {
		l.discard()
	}
	for tries := 0; ; tries++ {
		n, err := l.src.Read(l.buf[l.end:])
		l.end += n
		if tries == 100 && err == nil {
			err = io.ErrNoProgress
		}
		l.err = err
		if n > 0 || err != nil {
			return n > 0
		}
	}
}

// discard sums and forgets the lines that were given, and makes room.
func (l *lines) discard() {
	l.sum.Write(l.buf[:l.start])
	if l.start == 0 {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
		return
	}
	copy(l.buf, l.buf[l.start:l.end])
	l.base += int64(l.start)
	l.end -= l.start
	l.scanned -= l.start
	l.first, l.start = 0, 0
}

// sumBefore is the sum of all bytes before the last line; it is asked for once.
func (l *lines) sumBefore() []byte {
	l.sum.Write(l.buf[:l.first])
	return l.sum.Sum(nil)
}

// offset is where the last line starts in the stream.
func (l *lines) offset() int64 { return l.base + int64(l.first) }

// rest says whether anything follows the last line.
func (l *lines) rest() bool { return l.end > l.start || l.fill() }
