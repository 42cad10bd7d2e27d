//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/reports/result"
)

// TestSecondInterrupt: twice ends at once, and what was seen by then is sealed.
func TestSecondInterrupt(t *testing.T) {
	binary := build(t)
	dir := t.TempDir()
	mark := fmt.Sprintf("LOCKCHECK_TEST_MARK=%d-%d", os.Getpid(), rand.Int64())
	cmd := exec.Command(binary, "run", "--runs", dir, "--lease", "500ms")
	cmd.Env = append(os.Environ(), mark)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	awaitHistory(t, filepath.Join(dir, "latest", "history.jsonl"), ended)
	oversleep := stalls()
	struck := time.Now()
	must(t, cmd.Process.Signal(os.Interrupt))
	time.Sleep(20 * time.Millisecond) // two signals that wait together are one
	_ = cmd.Process.Signal(syscall.SIGTERM)
	<-ended
	took := time.Since(struck)
	for time.Since(struck) < 2*time.Second && len(marked(mark)) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if code := cmd.ProcessState.ExitCode(); code != int(result.ExitInterrupted) {
		t.Errorf("exit code %d\n%s", code, errs.String())
	}
	if left := marked(mark); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if worst := oversleep(); took > 2*sealLimit && worst < 50*time.Millisecond {
		t.Errorf("it took %s to end at once", took)
	}
	readable(t, dir, os.Interrupt.(syscall.Signal))
}

// awaitHistory returns once cases write to the history.
func awaitHistory(t *testing.T, path string, ended <-chan error) {
	t.Helper()
	for {
		if info, err := os.Stat(path); err == nil && info.Size() > 10_000 {
			return
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended by itself: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
