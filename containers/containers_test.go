package containers

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec/driver"
)

func TestMain(m *testing.M) {
	driver.Main(nil) // the guard is this binary
	if how := os.Getenv(envVictim); how != "" {
		victim(how)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// start starts a server, or skips where there is none.
func start(t *testing.T, o *RedisOptions) *local {
	t.Helper()
	s, err := Redis(t.Context(), o)
	var missing *MissingError
	if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*local)
}

// say sends one inline command and gives the first line of the answer.
func say(t *testing.T, addr, command string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
	fmt.Fprintf(c, "%s\r\n", command)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return "error"
	}
	return strings.TrimSpace(line)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// alive says whether a process runs, stopped or not. One that nobody has reaped
// yet is dead.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Errorf("not within 5s: %s", what)
}

func TestRestart(t *testing.T) {
	s := start(t, &RedisOptions{Persist: true})
	set := func() { say(t, s.Addr(), "SET k v") }
	for _, test := range []struct {
		what string
		end  func() error
		want string
	}{
		{"a crash that keeps what was written", func() error { return s.Restart(t.Context(), Keep) }, "$1"},
		{"a crash that loses its disk", func() error { return s.Restart(t.Context(), Forget) }, "$-1"},
		{"an end in order", func() error { return errors.Join(s.Stop(t.Context()), s.Start(t.Context())) }, "$1"},
		{"a kill", func() error { return errors.Join(s.Kill(), s.Start(t.Context())) }, "$1"},
	} {
		set()
		must(t, test.end())
		if got := say(t, s.Addr(), "GET k"); got != test.want {
			t.Errorf("after %s: %q, want %q", test.what, got, test.want)
		}
	}
}

func TestPause(t *testing.T) {
	s := start(t, nil)
	must(t, s.Pause())
	if got := say(t, s.Addr(), "PING"); got != "error" {
		t.Errorf("a server that stands still said %q", got)
	}
	must(t, s.Resume())
	if got := say(t, s.Addr(), "PING"); got != "+PONG" {
		t.Errorf("it said %q after the pause", got)
	}
	must(t, s.Pause()) // Stop of a paused server ends, and so does Close
	must(t, s.Stop(t.Context()))
	if err := s.Pause(); !errors.Is(err, errNotRunning) {
		t.Errorf("pause of an ended server: %v", err)
	}
}

// TestPassword: one who knows it gets in, nobody else, and no command line
// shows it.
func TestPassword(t *testing.T) {
	s := start(t, &RedisOptions{Password: "hunter2"})
	if got := say(t, s.Addr(), "GET k"); !strings.HasPrefix(got, "-NOAUTH") {
		t.Errorf("it let somebody in: %q", got)
	}
	if got := say(t, s.Addr(), "AUTH hunter2"); got != "+OK" {
		t.Errorf("it said %q", got)
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.run.cmd.Process.Pid)); err == nil && strings.Contains(string(line), "hunter2") {
		t.Errorf("the command line shows it: %q", line)
	}
}

// TestBadStart: what a server says when it does not start is told, and nothing
// of it is left.
func TestBadStart(t *testing.T) {
	start(t, nil) // skips where there is none
	before, _ := filepath.Glob(filepath.Join(os.TempDir(), driver.FolderPrefix+"redis-*"))
	_, err := Redis(t.Context(), &RedisOptions{Directives: []string{"no-such-directive 1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("the error does not tell why: %v", err)
	}
	after, _ := filepath.Glob(filepath.Join(os.TempDir(), driver.FolderPrefix+"redis-*"))
	if len(after) > len(before) {
		t.Errorf("folders are left: %v", after)
	}
}

func TestMissing(t *testing.T) {
	_, err := Redis(t.Context(), &RedisOptions{Program: "no-such-server"})
	var missing *MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("it does not say what to install: %v", err)
	}
}

// TestCycles: start and end leave no process, folder or port.
func TestCycles(t *testing.T) {
	cycles := 10
	if os.Getenv("LOCKCHECK_FULL") != "" {
		cycles = 100
	}
	for name, start := range map[string]func(t *testing.T) *local{
		"redis": func(t *testing.T) *local { return start(t, nil) },
		"etcd":  startEtcd,
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			for range cycles {
				cycle(t, start(t))
			}
			t.Logf("%d cycles, %v each", cycles, time.Since(begin)/time.Duration(cycles))
		})
	}
}

func cycle(t *testing.T, s *local) {
	t.Helper()
	pid, folder, addr := s.run.cmd.Process.Pid, s.folder, s.Addr()
	must(t, s.Close())
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("folder %s is left", folder)
	}
	if alive(pid) {
		t.Fatalf("process %d is left", pid)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Fatalf("somebody still listens at %s", addr)
	}
}
