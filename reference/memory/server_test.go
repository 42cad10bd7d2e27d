package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// served is a server that lives as long as the test.
func served(t testing.TB) (addr string, admin Admin) {
	t.Helper()
	data, adm, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, data, adm, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return data.Addr().String(), Admin{adm.Addr().String()}
}

func engineTo(t testing.TB, addr string, opts *reference.Options) *reference.Engine {
	t.Helper()
	e, err := reference.New(Dial(addr, &BackendOptions{Lease: time.Second}), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func TestTwoEnginesExclude(t *testing.T) {
	addr, admin := served(t)
	a, b := engineTo(t, addr, nil), engineTo(t, addr, nil)
	ctx := t.Context()
	l, err := a.TryAcquire(ctx, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*reference.Engine{a, b} {
		if _, err := e.TryAcquire(ctx, "k", nil); !errors.Is(err, lockspec.ErrBusy) {
			t.Fatalf("held key: %v, want busy", err)
		}
	}
	if all, err := admin.Inspect(ctx, "k"); err != nil || len(all) != 1 {
		t.Fatalf("inspect: %v, %v", all, err)
	}
	time.AfterFunc(20*time.Millisecond, func() { l.Release(ctx) })
	l2, err := b.Acquire(ctx, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	t1, _ := l.Token()
	if t2, _ := l2.Token(); t2 <= t1 {
		t.Errorf("token %d after %d", t2, t1)
	}
	if err := l2.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := l2.Release(ctx); err != nil {
		t.Errorf("second release: %v", err)
	}
}
