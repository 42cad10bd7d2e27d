//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestKilledInAPause: lockcheck is killed while a worker stands still. Nothing of
// it stands still a second later, nor runs.
func TestKilledInAPause(t *testing.T) {
	binary := build(t)
	dir, tmp := t.TempDir(), t.TempDir()
	mark := fmt.Sprintf("LOCKCHECK_TEST_MARK=%d-%d", os.Getpid(), rand.Int64())
	cmd := exec.Command(binary, "run", "--runs", dir, "--lease", "3s", "--case", "X02", "--suite", "chaos")
	cmd.Env = append(os.Environ(), mark, "TMPDIR="+tmp)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(30 * time.Second); !paused(dir) || !slices.ContainsFunc(marked(mark), stopped); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("no worker was paused\n%s", errs.String())
		}
	}
	oversleep := stalls()
	struck := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	left := marked(mark)
	for time.Since(struck) < time.Second && len(left) > 0 {
		time.Sleep(10 * time.Millisecond)
		left = marked(mark)
	}
	t.Logf("all gone within %s", time.Since(struck).Round(time.Millisecond))
	if worst := oversleep(); len(left) > 0 && worst > 50*time.Millisecond {
		t.Skipf("a nap of 10 ms took %s longer meanwhile: this machine is too busy to say", worst)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v\n%s", left, errs.String())
	}
}

// stopped says whether the process of a line of marked stands still.
func stopped(line string) bool { return strings.HasSuffix(line, " T") }

// paused says whether the history of a run has a pause that has landed.
func paused(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*", "history.jsonl"))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"fault":"pause"`) && strings.Contains(line, `"phase":"landed"`) {
				return true
			}
		}
	}
	return false
}
