package main

import (
	"os"
	"testing"
)

// terminal opens the master of a new pseudo-terminal, which is a terminal.
func terminal(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
