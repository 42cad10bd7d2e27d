package history

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"
)

var errGzip = errors.New("broken gzip")

// unpack looks at the first bytes of r and, if they are gzip, unpacks it on a
// goroutine of its own, which ends with the stream or with stop.
func unpack(r io.Reader) (src io.Reader, stop func(), err error) {
	magic := make([]byte, 2)
	n, err := io.ReadFull(r, magic)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, fmt.Errorf("history: %w", err)
	}
	whole := io.MultiReader(bytes.NewReader(magic[:n]), r)
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return whole, func() {}, nil
	}
	u := &unpacker{full: make(chan []byte, 2), empty: make(chan []byte, 2), quit: make(chan struct{})}
	go u.run(bufio.NewReaderSize(whole, firstBuffer))
	return u, sync.OnceFunc(func() { close(u.quit) }), nil
}

// unpacker hands unpacked blocks from its goroutine to Read.
type unpacker struct {
	full, empty chan []byte
	quit        chan struct{}
	err         error  // set before full is closed
	block, rest []byte // of the reading side
}

func (u *unpacker) run(r io.Reader) {
	defer close(u.full)
	z, err := gzip.NewReader(r)
	for err == nil {
		block := make([]byte, firstBuffer)
		select {
		case block = <-u.empty:
		default:
		}
		var n int
		n, err = io.ReadFull(z, block)
		select {
		case u.full <- block[:n]:
		case <-u.quit:
			err = io.EOF
		}
	}
	// A stream that stops short is a truncated file, whose whole lines stand.
	if u.err = err; errors.Is(err, io.ErrUnexpectedEOF) {
		u.err = io.EOF
	} else if !errors.Is(err, io.EOF) {
		u.err = fmt.Errorf("%w: %w", errGzip, err)
	}
}

func (u *unpacker) Read(p []byte) (int, error) {
	for len(u.rest) == 0 {
		if u.block != nil {
			select {
			case u.empty <- u.block[:cap(u.block)]:
			default:
			}
		}
		var ok bool
		if u.block, ok = <-u.full; !ok {
			return 0, u.err
		}
		u.rest = u.block
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}
