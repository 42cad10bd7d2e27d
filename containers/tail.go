package containers

import (
	"io"
	"strings"
	"sync"
)

// tailSize is what is kept of a server's log: enough for the reason of its end.
const tailSize = 4096

// tail keeps the end of what a server writes.
type tail struct {
	to io.Writer // gets all of it; may be nil

	mu   sync.Mutex
	kept []byte
}

// from reads to the end.
func (t *tail) from(r io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		t.add(buf[:n])
		if err != nil {
			return
		}
	}
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.add(b)
	return len(b), nil
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.to != nil {
		_, _ = t.to.Write(b) // a log that cannot be written stops no server
	}
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
