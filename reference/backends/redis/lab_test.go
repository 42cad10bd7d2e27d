package redis

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/reference"
)

// lab is a real server that a test has for itself.
type lab struct {
	containers.Server
	admin *goredis.Client
}

// newLab starts a server; where there is none the test is skipped, or fails if
// everything is required.
func newLab(t *testing.T, o *containers.RedisOptions) *lab {
	t.Helper()
	s, err := containers.Redis(t.Context(), o)
	var missing *containers.MissingError
	if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	must(t, err)
	l := &lab{Server: s, admin: goredis.NewClient(&goredis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true})}
	if o != nil {
		l.admin.Options().Password = o.Password
	}
	Quiet()
	t.Cleanup(func() {
		if err := errors.Join(l.admin.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Restart implements Started.
func (l *lab) Restart(ctx context.Context) error { return l.Server.Restart(ctx, containers.Forget) }

// Replica implements Started.
func (l *lab) Replica(ctx context.Context) (string, func() error, error) {
	host, port, err := net.SplitHostPort(l.Addr())
	if err != nil {
		return "", nil, err
	}
	s, err := containers.Redis(ctx, &containers.RedisOptions{Directives: []string{"replicaof " + host + " " + port}})
	if err != nil {
		return "", nil, err
	}
	return s.Addr(), s.Close, nil
}

// do is one command of the test's own.
func (l *lab) do(t *testing.T, args ...any) any {
	t.Helper()
	v, err := l.admin.Do(t.Context(), args...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// backend is a way to an address, which ends with the test.
func backend(t *testing.T, addr string, o *Options) *Backend {
	t.Helper()
	b, err := New(addr, o)
	must(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// proxied is a server with faults before it, and a way to it.
func proxied(t *testing.T, l *lab, o *Options) (*Faults, *Backend) {
	t.Helper()
	f, err := NewFaults(l, o)
	must(t, err)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, backend(t, f.Addr(), o)
}

func claim(key, owner string) reference.Claim {
	return reference.Claim{Key: key, Owner: owner, Lease: 10 * time.Second, Count: 1}
}

// grant takes a key that must be free.
func grant(t *testing.T, b *Backend, c reference.Claim) int64 {
	t.Helper()
	g, err := b.Attempt(t.Context(), c)
	if err != nil {
		t.Fatalf("attempt of a free key: %v", err)
	}
	if g.Lease != c.Lease {
		t.Errorf("granted %v of %v", g.Lease, c.Lease)
	}
	return g.Token
}

func expect(t *testing.T, what string, err error, want error) {
	t.Helper()
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// words collects what it is told.
type words struct {
	mu  sync.Mutex
	all []string
}

func (w *words) add(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *words) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.all...)
}

// attempt is the error of an attempt.
func attempt(t *testing.T, b *Backend, c reference.Claim) error {
	t.Helper()
	_, err := b.Attempt(t.Context(), c)
	return err
}
