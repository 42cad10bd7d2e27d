//go:build linux

package driver

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// withChild is a driver that has a child of its own, as one behind a shell or a
// package manager has.
func withChild(config Config) Config {
	config.Command = []string{"/bin/sh", "-c", `sleep 1000 & exec "$0"`, os.Args[0]}
	return config
}

func TestPauseStopsTheGroup(t *testing.T) {
	n := startToy(t, withChild(Config{}))
	lease := acquire(t, n, "p1", "k")
	written := make(chan error, 1)
	go func() {
		_, err := lease.(lockspec.Worker).Work(within(t), 100*time.Millisecond)
		written <- err
	}()
	until(t, "the write is sent", func() bool { return n.current().open() > 0 })
	wants(t, "the write has begun", n.Ping(within(t), false), lockspec.OK)
	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	if got := len(members(n.PID())); got != 2 || !groupStopped(n.PID()) || !n.Paused() {
		t.Errorf("%d members, stopped: %v", got, groupStopped(n.PID()))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	wants(t, "ping of a paused node", n.Ping(ctx, false), lockspec.Cancelled)
	if took := time.Since(start); took > time.Second {
		t.Errorf("a paused node kept its caller for %v", took)
	}
	select {
	case err := <-written:
		t.Errorf("a paused node answered a write: %v", err)
	default:
	}
	if err := n.Resume(); err != nil {
		t.Fatal(err)
	}
	wants(t, "ping after the resume", n.Ping(within(t), false), lockspec.OK)
	wants(t, "the write that was in its work", await(t, "write", written), lockspec.OK)
	if err := n.Resume(); err != nil {
		t.Errorf("resume of a running node: %v", err)
	}
}

func TestKillEndsTheGroup(t *testing.T) {
	for _, paused := range []bool{false, true} {
		n := startToy(t, withChild(Config{}))
		group := n.PID()
		if paused {
			if err := n.Pause(); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
		if left := members(group); len(left) > 0 {
			t.Errorf("paused %v: %v are left", paused, left)
		}
		if err := n.Pause(); err == nil {
			t.Error("pause of a dead node: no error")
		}
	}
}

// A driver that leaves a child behind when it exits leaves nothing.
func TestExitEndsTheGroup(t *testing.T) {
	n := startToy(t, withChild(Config{}))
	group := n.PID()
	if err := n.Shutdown(within(t), false); err != nil {
		t.Fatal(err)
	}
	if left := members(group); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestStalls(t *testing.T) {
	type stall struct{ from, to lockspec.Stamp }
	stalls := make(chan stall, 64)
	n := startToy(t, Config{
		PingEvery: 5 * time.Millisecond, StallOver: 100 * time.Millisecond, Settle: 50 * time.Millisecond,
		OnStall: func(from, to lockspec.Stamp) { stalls <- stall{from, to} },
	})
	if err := n.Pause(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if err := n.Resume(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	for len(stalls) > 0 { // of the machine, perhaps; an injected one lasts longer
		if s := <-stalls; s.to-s.from >= lockspec.Stamp(300*time.Millisecond) {
			t.Errorf("an injected pause was reported: %v", time.Duration(s.to-s.from))
		}
	}
	stop := n.stamp()
	if err := signalGroup(n.PID(), syscall.SIGSTOP); err != nil { // behind the node's back
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	resume := n.stamp()
	if err := signalGroup(n.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for {
		s := await(t, "stall", stalls)
		if s.from <= stop+lockspec.Stamp(50*time.Millisecond) && s.to >= resume {
			return
		}
	}
}

func TestStatOfAnOddName(t *testing.T) {
	path := t.TempDir() + "/stat"
	if err := os.WriteFile(path, []byte("7 (a) T (b)) S 1 42 42 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if state, pgid, ok := readStat(path); state != 'S' || pgid != 42 || !ok {
		t.Errorf("%c %d %v", state, pgid, ok)
	}
	for _, text := range []string{"", "7 (a", "7 (a) S 1", "7 (a) S 1 x 1"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, ok := readStat(path); ok {
			t.Errorf("%q was read", text)
		}
	}
	if err := stopGroup(1); err == nil || !strings.Contains(err.Error(), "invalid") {
		t.Errorf("group 1: %v", err)
	}
}
