package containers

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
)

// started makes a server end with the test; where its program is missing the
// test is skipped, or fails if everything is required.
func started[S Server](t *testing.T, s S, err error) S {
	t.Helper()
	var missing *MissingError
	if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func startPostgres(t *testing.T, o *PostgresOptions) *local {
	t.Helper()
	s, err := Postgres(t.Context(), o)
	return started(t, s, err).(*local)
}

// ask is a client of few words: it says hello to a server that lets everybody
// in, asks one thing, and gives the first value of the answer, or the first word
// of an error.
func ask(t *testing.T, addr, sql string) string { return askFor(t, 10*time.Second, addr, sql) }

// askFor gives up after so long.
func askFor(t *testing.T, limit time.Duration, addr, sql string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, time.Second)
	must(t, err)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit))
	body := append(binary.BigEndian.AppendUint32(nil, 3<<16), "user\x00postgres\x00database\x00postgres\x00\x00"...)
	_, _ = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(4+len(body))), body...))
	in := bufio.NewReader(c)
	for asked := false; ; {
		head := make([]byte, 5)
		if _, err := io.ReadFull(in, head); err != nil {
			return "silence"
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(in, body); err != nil {
			return "silence"
		}
		switch head[0] {
		case 'E':
			return "error"
		case 'D':
			return string(body[6:])
		case 'Z':
			if asked {
				return ""
			}
			asked = true
			query := append([]byte(sql), 0)
			_, _ = c.Write(append(binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(4+len(query))), query...))
		}
	}
}

func TestPostgresRestart(t *testing.T) {
	s := startPostgres(t, nil)
	for _, test := range []struct {
		what string
		end  func() error
		want string
	}{
		{"a crash that keeps what was written", func() error { return s.Restart(t.Context(), Keep) }, "kept"},
		{"an end in order", func() error { return errors.Join(s.Stop(t.Context()), s.Start(t.Context())) }, "kept"},
		{"a kill", func() error { return errors.Join(s.Kill(), s.Start(t.Context())) }, "kept"},
		{"a crash that loses its disk", func() error { return s.Restart(t.Context(), Forget) }, "error"},
	} {
		ask(t, s.Addr(), "CREATE TABLE IF NOT EXISTS t AS SELECT 'kept'")
		must(t, test.end())
		if got := ask(t, s.Addr(), "SELECT * FROM t"); got != test.want {
			t.Errorf("after %s: %q, want %q", test.what, got, test.want)
		}
	}
}

// TestPostgresPause: what it forked stands still too, though a signal to its
// group does not reach it: also a session that is in the middle of something.
func TestPostgresPause(t *testing.T) {
	s := startPostgres(t, nil)
	answer := make(chan string, 1)
	go func() { answer <- ask(t, s.Addr(), "SELECT 'awake' FROM pg_sleep(2)") }()
	eventually(t, "the session sleeps", func() bool {
		return ask(t, s.Addr(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
	})
	must(t, s.Pause())
	if got := askFor(t, 500*time.Millisecond, s.Addr(), "SELECT 1"); got != "silence" {
		t.Errorf("a server that stands still said %q", got)
	}
	if len(answer) > 0 {
		t.Errorf("a session of a server that stands still said %q", <-answer)
	}
	must(t, s.Resume())
	if got := ask(t, s.Addr(), "SELECT 'here'"); got != "here" {
		t.Errorf("it said %q after the pause", got)
	}
	eventually(t, "the session goes on", func() bool { return len(answer) > 0 })
	must(t, s.Pause()) // Stop of a paused server ends, and so does Close
	must(t, s.Stop(t.Context()))
	if err := s.Pause(); !errors.Is(err, errNotRunning) {
		t.Errorf("pause of an ended server: %v", err)
	}
}

// TestPostgresPassword: nobody gets in without, and no command line shows it.
func TestPostgresPassword(t *testing.T) {
	s := startPostgres(t, &PostgresOptions{Password: "hunter2"})
	if got := askFor(t, 500*time.Millisecond, s.Addr(), "SELECT 1"); got != "silence" { // it waits for a password
		t.Errorf("it let somebody in: %q", got)
	}
	lines, err := exec.Command("ps", "axww", "-o", "args").Output()
	if err == nil && strings.Contains(string(lines), "hunter2") {
		t.Error("a command line shows it")
	}
	_ = filepath.WalkDir(s.folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "hunter2") {
				t.Errorf("%s shows it", path)
			}
		}
		return nil
	})
}

// TestPostgresBadStart: what a server, or a program that it needs, says when it
// does not start is told, and nothing of it is left.
func TestPostgresBadStart(t *testing.T) {
	startPostgres(t, nil) // skips where there is none
	left := func() int {
		all, _ := filepath.Glob(filepath.Join(os.TempDir(), driver.FolderPrefix+"postgres*"))
		return len(all)
	}
	before := left()
	_, err := Postgres(t.Context(), &PostgresOptions{Settings: []string{"no_such_setting = 1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("the error does not tell why: %v", err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, silent.Close())
	_, err = PostgresStandby(t.Context(), &local{port: silent.Addr().(*net.TCPAddr).Port}, nil)
	if err == nil || !strings.Contains(err.Error(), "pg_basebackup") {
		t.Errorf("the error does not tell why: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Postgres(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a start that was cancelled: %v", err)
	}
	if after := left(); after > before {
		t.Errorf("%d folders are left", after-before)
	}
}

// TestStandbyOfContainer: there is none, and a case that wants one is told so.
func TestStandbyOfContainer(t *testing.T) {
	type container struct{ Server }
	if _, err := PostgresStandby(t.Context(), container{}, nil); !errors.Is(err, lockspec.ErrUnsupported) {
		t.Errorf("it says %v", err)
	}
}

func TestPostgresMissing(t *testing.T) {
	for install, start := range map[string]func() (Server, error){
		"apt-get install postgresql": func() (Server, error) {
			return Postgres(t.Context(), &PostgresOptions{Bin: t.TempDir()})
		},
		"apt-get install pgbouncer": func() (Server, error) {
			return PgBouncer(t.Context(), "127.0.0.1:1", &PgBouncerOptions{Program: "no-such-pooler"})
		},
	} {
		_, err := start()
		var missing *MissingError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), install) {
			t.Errorf("it does not say what to install: %v", err)
		}
	}
}

// TestFind: the newest of several versions is taken.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"9.6", "15", "16"} {
		path := filepath.Join(dir, version, "bin", "a-server")
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, nil, 0o755))
	}
	got, err := find("", []string{"a-server"}, []string{filepath.Join(dir, "*", "bin")}, "")
	if want := filepath.Join(dir, "16", "bin", "a-server"); err != nil || got != want {
		t.Errorf("found %s, %v", got, err)
	}
}

// TestStandby follows, refuses to write, and writes once it is promoted, though
// its primary is dead.
func TestStandby(t *testing.T) {
	for _, password := range []string{"", "hunter2"} {
		o := &PostgresOptions{Password: password}
		primary := startPostgres(t, o)
		standby, err := PostgresStandby(t.Context(), primary, o)
		standby = started(t, standby, err)
		if password != "" {
			must(t, standby.Promote(t.Context()))
			continue // that it has come up shows that it was let in
		}
		if got := ask(t, standby.Addr(), "SELECT pg_is_in_recovery()"); got != "t" {
			t.Errorf("in recovery: %s", got)
		}
		ask(t, primary.Addr(), "CREATE TABLE t AS SELECT 'followed'")
		eventually(t, "the standby follows", func() bool { return ask(t, standby.Addr(), "SELECT * FROM t") == "followed" })
		if got := ask(t, standby.Addr(), "CREATE TABLE u AS SELECT 1"); got != "error" {
			t.Errorf("a standby wrote: %q", got)
		}
		must(t, primary.Kill())
		must(t, standby.Promote(t.Context()))
		if got := ask(t, standby.Addr(), "SELECT pg_is_in_recovery()"); got != "f" {
			t.Errorf("in recovery after its promotion: %s", got)
		}
		must(t, standby.Restart(t.Context(), Keep))
		if got := ask(t, standby.Addr(), "SELECT * FROM t"); got != "followed" {
			t.Errorf("after a restart it has %q", got)
		}
		must(t, standby.Kill())
		if err := standby.Promote(t.Context()); !errors.Is(err, errNotRunning) {
			t.Errorf("promotion of one that has ended: %v", err)
		}
	}
}

// TestPgBouncer: with one session for all, two clients meet in it.
func TestPgBouncer(t *testing.T) {
	server := startPostgres(t, nil)
	p, err := PgBouncer(t.Context(), server.Addr(), nil)
	p = started(t, p, err)
	one, other := ask(t, p.Addr(), "SELECT pg_backend_pid()"), ask(t, p.Addr(), "SELECT pg_backend_pid()")
	if one != other || one == "" {
		t.Errorf("two clients were in sessions %q and %q", one, other)
	}
	must(t, p.Restart(t.Context(), Forget))
	if got := ask(t, p.Addr(), "SELECT 'here'"); got != "here" {
		t.Errorf("after a restart it said %q", got)
	}
}

// TestKindsCycle: start and end of each kind leave no process, folder or port.
func TestKindsCycle(t *testing.T) {
	cycles := 3
	if os.Getenv("LOCKCHECK_FULL") != "" {
		cycles = 100
	}
	primary := startPostgres(t, nil)
	kinds["standby"] = func(ctx context.Context, o Options) (Server, error) {
		return PostgresStandby(ctx, primary, &PostgresOptions{Options: o})
	}
	defer delete(kinds, "standby")
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			for n := range cycles {
				server, err := start(t.Context(), Options{})
				var s *local
				switch server := started(t, server, err).(type) {
				case *Standby:
					s = server.local
				case *local:
					s = server
				}
				pids := append(stopTree(s.run.cmd.Process), s.run.cmd.Process.Pid)
				must(t, errors.Join(signalAll(pids, continueGroup)))
				folder, addr := s.folder, s.Addr()
				if n%2 == 0 {
					must(t, s.Stop(t.Context()))
				}
				must(t, s.Close())
				if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
					t.Fatalf("folder %s is left", folder)
				}
				for _, pid := range pids { // one that is exiting has closed its log, and is not gone yet
					eventually(t, fmt.Sprintf("process %d of %v is gone", pid, pids), func() bool { return !alive(pid) })
				}
				if c, err := net.Dial("tcp", addr); err == nil {
					c.Close()
					t.Fatalf("somebody still listens at %s", addr)
				}
			}
		})
	}
}
