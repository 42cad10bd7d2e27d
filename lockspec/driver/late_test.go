package driver

import (
	"context"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// TestLateReplyIsTold: who asked to be told of a reply that came too late is
// told what it granted, and nobody else releases it.
func TestLateReplyIsTold(t *testing.T) {
	n := startToy(t, Config{OnLate: func(op, _, _ string, _ lockspec.Outcome, _ int64) {
		t.Errorf("the late reply to %s was told to the node", op)
	}})
	told := make(chan lockspec.Late, 1)
	ctx, cancel := context.WithTimeout(lockspec.WithLate(t.Context(), func(l lockspec.Late) { told <- l }), 10*time.Millisecond)
	defer cancel()
	const key = "k?deaf=500ms"
	if _, err := n.Client("p1").Acquire(ctx, lockspec.Request{Key: key}); err == nil {
		t.Fatal("it was granted in time")
	}
	late := await(t, "late grant", told)
	if late.Err != nil || late.Lease == nil || late.Lease.(lockspec.Fenced).Token() != 1 {
		t.Fatalf("told %+v", late)
	}
	_, err := n.Client("p2").Acquire(within(t), lockspec.Request{Key: key})
	wants(t, "before its release", err, lockspec.Busy)
	wants(t, "its release", late.Lease.Release(within(t)), lockspec.OK)
	acquire(t, n, "p2", key)
}
