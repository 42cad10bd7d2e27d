package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// unpackZstd looks at the first bytes of a file and, if they are zstd, unpacks
// it on goroutines of its own, which end with stop. gzip is the reader's affair:
// zstd is not in the standard library, and only this module may need more.
func unpackZstd(src *bufio.Reader) (unpacked *bufio.Reader, stop func(), err error) {
	head, err := src.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if !bytes.Equal(head, zstdMagic) {
		return src, func() {}, nil
	}
	d, err := zstd.NewReader(src)
	if err != nil {
		return nil, nil, err
	}
	return bufio.NewReaderSize(&zstdReader{src: d}, 1<<16), d.Close, nil
}

// zstdReader gives a broken stream its place, and ends one that stops short: a
// truncated file, whose whole lines stand.
type zstdReader struct {
	src io.Reader
	n   int64
}

func (z *zstdReader) Read(p []byte) (int, error) {
	n, err := z.src.Read(p)
	z.n += int64(n)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = io.EOF
	case err != nil && !errors.Is(err, io.EOF):
		err = fmt.Errorf("byte %d of the unpacked file: broken zstd: %w", z.n, err)
	}
	return n, err
}
