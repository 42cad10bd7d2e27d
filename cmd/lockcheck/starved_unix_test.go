//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// starvations is how many runs are starved; LOCKCHECK_TEST_STARVED asks for
// another number.
func starvations() int {
	if n, err := strconv.Atoi(os.Getenv("LOCKCHECK_TEST_STARVED")); err == nil {
		return n
	}
	return 1
}

// TestStarvedServer: who starts the server answers for it. While this machine
// keeps it from running for longer than a lease, the locks at it lose what they
// hold, and none of that is their fault.
func TestStarvedServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the contract")
	}
	for n := range starvations() {
		t.Run(strconv.Itoa(n), func(t *testing.T) { starved(t, int64(n+1)) })
	}
}

func starved(t *testing.T, seed int64) {
	const lease = 500 * time.Millisecond
	h, s := startedFor(t, lease)
	hunger := &hunger{pid: s.cmd.Process.Pid}
	if seed%3 == 0 {
		hunger.begin() // the probes of the claims starve too
	}
	var recorded bytes.Buffer
	r, err := contract.Check(t.Context(), h, &contract.Options{Seed: seed, Lease: lease, History: &recorded, Progress: hunger})
	hunger.end()
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Cases {
		if k := &r.Cases[i]; k.Status == result.Fail || k.Status == result.Error {
			t.Errorf("%s: %s: %s", k.ID, k.Status, k.Reason)
		}
	}
	for _, f := range r.Findings {
		if f.Certainty == checker.Certain {
			t.Errorf("%s: %s/%s: %s", f.Case, f.Kind, f.Rule, f.Message)
		}
	}
	t.Logf("verdict %s, %+v", r.Verdict, r.Summary)
	if r.Verdict == result.Fail {
		t.Error("the lock is blamed")
	}
	told, err := history.ReadAll(&recorded)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(told.Events, func(e history.Event) bool {
		return e.Fault == "stall" && e.Phase == history.Observed && slices.Contains(e.Targets, checker.ServiceTarget)
	}) {
		t.Error("no stall of the service is in the history")
	}
}

// hunger keeps a process from running, again and again from the first case on.
type hunger struct {
	pid  int
	once sync.Once
	stop context.CancelFunc
	done chan struct{}
}

func (h *hunger) begin() {
	h.once.Do(func() {
		var ctx context.Context
		ctx, h.stop = context.WithCancel(context.Background())
		h.done = make(chan struct{})
		go func() {
			defer close(h.done)
			starve(ctx, h.pid, 700*time.Millisecond)
		}()
	})
}

func (h *hunger) end() {
	h.begin() // where no case did
	h.stop()
	<-h.done
}

func (*hunger) Phase(string)                     {}
func (h *hunger) Begin(*contract.Case)           { h.begin() }
func (*hunger) End(*contract.Case, *result.Case) {}
func (*hunger) Note(string)                      {}

// starve keeps a process from running, again and again until ctx ends, and lets
// it go.
func starve(ctx context.Context, pid int, d time.Duration) {
	for ctx.Err() == nil {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		pause(ctx, d)
		_ = syscall.Kill(pid, syscall.SIGCONT)
		pause(ctx, 2*d)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
