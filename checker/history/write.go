package history

import (
	"crypto/sha256"
	"fmt"
	"io"
)

// WriteAll writes a complete history of events that were stamped before, in the
// order of their indices: a part of another history, with its own end line.
func WriteAll(w io.Writer, h Header, events []Event) error {
	out, err := appendHeader(nil, h)
	if err != nil {
		return err
	}
	for i := range events {
		out = appendEvent(out, &events[i])
	}
	sum := sha256.Sum256(out)
	if _, err := w.Write(appendEnd(out, int64(len(events)), sum[:])); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}
