package driver

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// startToy starts this test binary as a driver.
func startToy(t *testing.T, config Config) *Node {
	t.Helper()
	if config.Name == "" {
		config.Name = "n1"
	}
	if !slices.Contains(config.Env, noRaceSleep) {
		config.Env = append(config.Env, noRaceSleep)
	}
	if config.Log == nil {
		config.Log = t.Output()
	}
	n, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// within is a context that bounds a test's wait.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t *testing.T, n *Node, process, key string) lockspec.Lease {
	t.Helper()
	lease, err := n.Client(process).Acquire(within(t), lockspec.Request{Key: key, Lease: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestNodeAcquiresAndReleases(t *testing.T) {
	n := startToy(t, Config{})
	ctx := within(t)
	lease := acquire(t, n, "p1", "k")
	if got := lease.Granted(); got != 2*time.Second {
		t.Errorf("granted %v, want 2s", got)
	}
	if got := lease.(lockspec.Fenced).Token(); got != 1 {
		t.Errorf("token %d, want 1", got)
	}
	if _, err := n.Client("p2").Acquire(ctx, lockspec.Request{Key: "k"}); lockspec.OutcomeOf(err) != lockspec.Busy {
		t.Errorf("second acquisition: %v, want busy", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := lease.Release(ctx); lockspec.OutcomeOf(err) != lockspec.NotHeld {
		t.Errorf("second release: %v, want not-held", err)
	}
	if err := n.Shutdown(ctx, true); err != nil {
		t.Error(err)
	}
	if err := n.Err(); err != nil {
		t.Error(err)
	}
}
