package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// TestOutages: each power does to a real server what it says, the lock answers
// as it should, and healing makes all as it was.
func TestOutages(t *testing.T) {
	type outage struct {
		name   string
		strike func(ctx context.Context, f *Faults, key string) (func(context.Context) error, error)
		try    error // of another key meanwhile; nil: it is granted
		renew  error // of a key that was held before
	}
	never := func(context.Context) error { return nil }
	for _, row := range []outage{
		{"memory full, evicting", func(ctx context.Context, f *Faults, _ string) (func(context.Context) error, error) {
			return f.Fill(ctx, true)
		}, lockspec.ErrUnavailable, lockspec.ErrLost},
		{"memory full, refusing", func(ctx context.Context, f *Faults, _ string) (func(context.Context) error, error) {
			return f.Fill(ctx, false)
		}, lockspec.ErrUnavailable, nil},
		{"read-only", func(ctx context.Context, f *Faults, _ string) (func(context.Context) error, error) {
			return f.Freeze(ctx)
		}, lockspec.ErrUnavailable, lockspec.ErrUnavailable},
		{"a replica", func(ctx context.Context, f *Faults, _ string) (func(context.Context) error, error) {
			return f.Demote(ctx)
		}, lockspec.ErrUnavailable, lockspec.ErrUnavailable},
		{"scribbled on", func(ctx context.Context, f *Faults, key string) (func(context.Context) error, error) {
			return f.Scribble(ctx, key)
		}, nil, lockspec.ErrConfig},
		{"persisted", func(ctx context.Context, f *Faults, key string) (func(context.Context) error, error) {
			return never, f.Persist(ctx, key)
		}, nil, nil},
		{"without scripts", func(ctx context.Context, f *Faults, _ string) (func(context.Context) error, error) {
			return never, f.FlushScripts(ctx)
		}, nil, nil},
		{"revived", func(ctx context.Context, f *Faults, _ string) (func(context.Context) error, error) {
			return never, f.Revive(ctx)
		}, nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := newLab(t, nil)
			f, b := proxied(t, l, nil)
			held := claim("held", "a")
			grant(t, b, held)
			heal, err := row.strike(t.Context(), f, held.Key)
			must(t, err)
			_, err = b.Attempt(t.Context(), claim("other", "a"))
			expect(t, "another key", err, row.try)
			if err := b.Renew(t.Context(), held); row.renew == lockspec.ErrLost {
				if !errors.As(err, new(*reference.LostError)) {
					t.Errorf("renewal: %v, want a loss", err)
				}
			} else {
				expect(t, "renewal", err, row.renew)
			}
			must(t, heal(t.Context()))
			if _, err := b.Attempt(t.Context(), claim("later", "a")); err != nil {
				t.Errorf("healed, a free key: %v", err)
			}
		})
	}
}

// TestCrowded: who has a connection keeps it, a newcomer is told.
func TestCrowded(t *testing.T) {
	l := newLab(t, nil)
	f, b := proxied(t, l, nil)
	held := claim("held", "a")
	grant(t, b, held)
	leave, err := f.Crowd(t.Context())
	must(t, err)
	expect(t, "renewal", b.Renew(t.Context(), held), nil)
	_, err = backend(t, f.Addr(), nil).Attempt(t.Context(), claim("other", "b"))
	expect(t, "a newcomer", err, lockspec.ErrUnavailable)
	leave()
	_, err = backend(t, f.Addr(), nil).Attempt(t.Context(), claim("other", "b"))
	expect(t, "a newcomer afterwards", err, nil)
}

// TestTakeover: a replica that was cut off grants again what is held, with a
// larger token; healing is a failover too.
func TestTakeover(t *testing.T) {
	for _, cutOff := range []bool{true, false} {
		l := newLab(t, nil)
		f, b := proxied(t, l, nil)
		end, err := f.Follow(t.Context())
		must(t, err)
		t.Cleanup(func() { _ = end() })
		if cutOff {
			must(t, f.Detach(t.Context()))
		}
		first := grant(t, b, claim("k", "a"))
		if !cutOff {
			l.do(t, "WAIT", 1, 5000)
		}
		_, heal, err := f.Failover(t.Context(), false)
		must(t, err)
		second, err := eventually(t, func() (reference.Grant, error) { return b.Attempt(t.Context(), claim("k", "b")) })
		if cutOff {
			expect(t, "the key that the replica never heard of", err, nil)
			if second.Token <= first {
				t.Errorf("token %d after %d", second.Token, first)
			}
		} else {
			expect(t, "the key that the replica knew", err, lockspec.ErrBusy)
		}
		must(t, heal(t.Context()))
		_, err = eventually(t, func() (reference.Grant, error) { return b.Attempt(t.Context(), claim("k", "c")) })
		expect(t, "healed, empty", err, nil)
		expect(t, "a ping", f.Ping(t.Context()), nil)
	}
}

// eventually asks until the service answers.
func eventually[T any](t *testing.T, ask func() (T, error)) (v T, err error) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if v, err = ask(); !errors.Is(err, lockspec.ErrUnavailable) {
			return v, err
		}
	}
	return v, err
}
