//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/reports/result"
)

// moments is how many random moments of a run each signal strikes;
// LOCKCHECK_MOMENTS asks for another number.
func moments() int {
	if n, err := strconv.Atoi(os.Getenv("LOCKCHECK_MOMENTS")); err == nil {
		return n
	}
	return 3
}

// TestSignals: whatever ends the built binary, whenever: within a second there
// is no process of its run left, stopped or running, no temporary folder, and
// the history can be read.
func TestSignals(t *testing.T) {
	binary := build(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			for n := range moments() {
				t.Run(strconv.Itoa(n), func(t *testing.T) { strike(t, binary, sig) })
			}
			t.Run("redis", func(t *testing.T) {
				ownRedis(t, nil) // skips where there is none
				strike(t, binary, sig, "up:redis")
			})
		})
	}
}

func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lockcheck")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// strike runs the binary, ends it at a random moment, and looks at what is
// left. Everything of a run carries the run's own mark in its environment.
func strike(t *testing.T, binary string, sig syscall.Signal, target ...string) {
	dir, tmp := t.TempDir(), t.TempDir()
	mark := fmt.Sprintf("LOCKCHECK_TEST_MARK=%d-%d", os.Getpid(), rand.Int64())
	cmd := exec.Command(binary, append([]string{"run", "--runs", dir, "--lease", "500ms"}, target...)...)
	cmd.Env = append(os.Environ(), mark, "TMPDIR="+tmp)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	after := time.Duration(rand.Int64N(int64(4500 * time.Millisecond)))
	select {
	case <-time.After(after):
	case err := <-ended:
		t.Fatalf("the run ended before it was struck: %v\n%s", err, errs.String())
	}
	oversleep := stalls()
	struck := time.Now()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	err := <-ended
	left := marked(mark)
	for time.Since(struck) < time.Second && len(left) > 0 {
		time.Sleep(10 * time.Millisecond)
		left = marked(mark)
	}
	t.Logf("%s after %s: all gone within %s, %v", sig, after.Round(time.Millisecond), time.Since(struck).Round(time.Millisecond), err)
	if worst := oversleep(); len(left) > 0 && worst > 50*time.Millisecond {
		t.Skipf("a nap of 10 ms took %s longer meanwhile: this machine is too busy to say", worst)
	}
	if len(left) > 0 {
		t.Errorf("%s after %s: left behind after %s: %v\n%s", sig, after, time.Since(struck), left, errs.String())
	}
	if entries, _ := os.ReadDir(tmp); len(entries) > 0 {
		t.Errorf("temporary folders left: %v", entries)
	}
	readable(t, dir, sig)
	if _, err := os.Lstat(filepath.Join(dir, "latest")); err != nil && cmd.ProcessState.ExitCode() < 0 {
		return // struck before it had begun to listen for signals, or anything else
	}
	if code := cmd.ProcessState.ExitCode(); sig != syscall.SIGKILL && code != int(result.ExitInterrupted) {
		t.Errorf("exit code %d, want %d\n%s", code, result.ExitInterrupted, errs.String())
	}
}

// stalls measures how much longer than asked a nap takes, until it is asked for
// the worst.
func stalls() (worst func() time.Duration) {
	stop, found := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for {
			select {
			case <-stop:
				found <- most
				return
			default:
			}
			before := time.Now()
			time.Sleep(10 * time.Millisecond)
			most = max(most, time.Since(before)-10*time.Millisecond)
		}
	}()
	return func() time.Duration { close(stop); return <-found }
}

// marked are the processes whose environment carries the mark, with their
// state.
func marked(mark string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(env, []byte(mark)) {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(f), "stat"))
		if err == nil {
			found = append(found, strings.Join(strings.Fields(string(stat))[:3], " "))
		}
	}
	return found
}

// readable reads the history that was written so far; one that was cut off is
// right only where nobody could write its end.
func readable(t *testing.T, dir string, sig syscall.Signal) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "latest", "history.jsonl"))
	if os.IsNotExist(err) {
		return // struck before there was one
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := bufio.NewReader(f).Peek(1); err == io.EOF {
		return // struck before the header
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadAll(f)
	if err != nil {
		t.Errorf("the history cannot be read: %v", err)
		return
	}
	if h.Truncated && sig != syscall.SIGKILL {
		t.Error("an interrupted run left a history without an end")
	}
}
