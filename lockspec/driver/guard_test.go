//go:build unix

package driver

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// A killed harness leaves no process, running or stopped, and no folder.
func TestGuardOutlivesTheHarness(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			if signal.Ignored(sig) {
				t.Skip("whoever started this ignores the signal, and so do its children")
			}
			harness := exec.Command(os.Args[0])
			harness.Env = append(os.Environ(), envHarness+"=1")
			harness.Stderr = t.Output()
			out, err := harness.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := harness.Start(); err != nil {
				t.Fatal(err)
			}
			defer harness.Wait()
			defer harness.Process.Kill()
			var groups []int
			var folder string
			guard := 0
			for lines := bufio.NewScanner(out); guard == 0 && lines.Scan(); {
				word, what, _ := strings.Cut(lines.Text(), " ")
				n, _ := strconv.Atoi(what)
				switch word {
				case "group":
					groups = append(groups, n)
				case "folder":
					folder = what
				case "guard":
					guard = n
				}
			}
			if len(groups) != 2 || guard == 0 || !groupAlive(groups[1]) {
				t.Fatalf("groups %v, guard %d", groups, guard)
			}
			start := time.Now()
			if err := harness.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			until(t, "all is gone", func() bool {
				_, err := os.Stat(folder)
				return errors.Is(err, os.ErrNotExist) && !groupAlive(groups[0]) && !groupAlive(groups[1])
			})
			took := time.Since(start)
			t.Logf("gone after %v", took)
			if took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			until(t, "the guard ends", func() bool { return !processRuns(guard) })
		})
	}
}

func TestGuardIsHardToEnd(t *testing.T) {
	guard, err := StartGuard(nil, noRaceSleep)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", FolderPrefix)
	if err != nil {
		t.Fatal(err)
	}
	guard.Folder(folder)
	n := startToy(t, Config{Guard: guard})
	// It reads its pipe only after it has set its signals aside, and this
	// program is told of no such moment: what it does is the proof.
	time.Sleep(300 * time.Millisecond)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if err := guard.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(guard.Close(), guard.Close()); err != nil {
		t.Error(err)
	}
	await(t, "the node's end", n.Exited())
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
	guard.Started(1) // after Close: nothing happens
}

func TestGuardForgetsWhatEnded(t *testing.T) {
	kept, err := os.MkdirTemp("", FolderPrefix)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(kept)
	stranger := exec.Command("sleep", "1000")
	ownGroup(stranger)
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer stranger.Wait()
	defer stranger.Process.Kill()
	pid := stranger.Process.Pid
	guard(strings.NewReader(fmt.Sprintf("start \"%d\"\nfolder %q\nrubbish\nstart \"x\"\nstart \"0\"\nstart \"1\"\nend \"%d\"\ngone %q\nstart \"%d", pid, kept, pid, kept, pid)))
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the folder: %v", err)
	}
	if !processRuns(pid) {
		t.Error("it killed a group that had ended")
	}
}

func TestGuardRemovesOnlyOurs(t *testing.T) {
	temp, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	link := filepath.Join(temp, "link")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"lockcheck-1", "deeper/lockcheck-2", "other"} {
		if err := os.MkdirAll(filepath.Join(temp, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{
		temp + "/lockcheck-1":          true,
		temp + "/deeper/lockcheck-2":   true,
		temp + "/other":                false,
		temp:                           false,
		temp + "/lockcheck-1/../other": false,
		elsewhere + "/lockcheck-1":     false,
		link + "/lockcheck-1":          false,
		"lockcheck-1":                  false,
		"/lockcheck-1":                 false,
		temp + "/none/lockcheck-1":     false,
		"":                             false,
	} {
		if got := ours(path); got != want {
			t.Errorf("ours(%q) = %v", path, got)
		}
	}
}

func TestNilGuard(t *testing.T) {
	var guard *Guard
	guard.Started(1)
	guard.Ended(1)
	guard.Folder("/")
	guard.FolderGone("/")
	if err := guard.Close(); err != nil {
		t.Error(err)
	}
	if _, err := StartGuard([]string{"/nonexistent/guard"}); err == nil || errors.Is(err, lockspec.ErrUnsupported) {
		t.Errorf("no such guard: %v", err)
	}
}

// processRuns is false for a process that is gone or a zombie.
func processRuns(pid int) bool {
	if pgid, err := syscall.Getpgid(pid); err == nil {
		return groupAlive(pgid)
	}
	return false
}
