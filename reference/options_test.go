package reference_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
)

func TestG09_NamespacesNeverCollide(t *testing.T) {
	bubble(t, func(w *world) {
		pairs := [][2]string{{"a", "b:c"}, {"a:b", "c"}, {"a%3Ab", "c"}, {"a%", "3Ab:c"}, {"a:", "b:c"}, {"A", "b:c"}, {"a", ":b:c"}}
		for _, p := range pairs {
			e := w.engine(w.spy(), &reference.Options{Namespace: p[0]})
			l := w.take(e, p[1], nil)
			if l.Key() != p[1] {
				t.Errorf("key %q, want %q", l.Key(), p[1])
			}
			if _, err := e.TryAcquire(w.Context(), p[1], nil); !errors.Is(err, lockspec.ErrBusy) {
				t.Errorf("%q %q: %v", p[0], p[1], err)
			}
		}
		if w.store.Len() != len(pairs) {
			t.Errorf("%d keys of %d", w.store.Len(), len(pairs))
		}
	})
}

func TestKeys(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		for _, key := range []string{"", strings.Repeat("x", 513), strings.Repeat("é", 513), strings.Repeat("\xff", 513)} {
			_, err := e.TryAcquire(w.Context(), key, nil)
			w.want(err, lockspec.ErrInvalidKey)
			_, err = e.Acquire(w.Context(), key, nil)
			w.want(err, lockspec.ErrInvalidKey)
		}
		if s.count("attempt") != 0 {
			t.Error("asked the backend for an invalid key")
		}
		distinct := []string{"x", "X", " x", "x/", "x\x00", "\xff", "\xfe", "é", "e\u0301", "😀", ".", "..", "a/..", "*", "{x}",
			strings.Repeat("x", 512), strings.Repeat("x", 511) + "y", strings.Repeat("😀", 512)}
		for _, key := range distinct {
			w.take(e, key, nil)
		}
		if w.store.Len() != len(distinct) {
			t.Errorf("%d keys of %d", w.store.Len(), len(distinct))
		}
	})
}

func TestOptionsListEveryProblem(t *testing.T) {
	b := memory.New(nil).Backend(nil)
	_, err := reference.New(b, &reference.Options{
		Margin: 0.9, MinRetryDelay: 2 * time.Second, MaxRetryDelay: time.Second,
		AttemptTimeout: -1, ReleaseTimeout: -1, Lease: 48 * time.Hour,
	})
	if !errors.Is(err, lockspec.ErrConfig) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"margin 0.9", "maximum retry delay 1s is below the minimum, 2s", "attempt timeout", "release timeout", "lease 48h0m0s is above the maximum"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %q", part, err)
		}
	}
	for name, o := range map[string]*reference.Options{
		"negative margin": {Margin: -0.1}, "negative delay": {MinRetryDelay: -1}, "lease": {Lease: -time.Second},
		"below minimum": {Lease: time.Microsecond},
	} {
		if _, err := reference.New(b, o); !errors.Is(err, lockspec.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := reference.New(session{b}, &reference.Options{Lease: time.Second}); !errors.Is(err, lockspec.ErrConfig) {
		t.Errorf("a lease for a session: %v", err)
	}
}

func TestAcquireOptionsAreValidated(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		for name, tc := range map[string]struct {
			opts *reference.AcquireOptions
			want error
		}{
			"lease":   {&reference.AcquireOptions{Lease: -1}, lockspec.ErrConfig},
			"short":   {&reference.AcquireOptions{Lease: time.Nanosecond}, lockspec.ErrConfig},
			"long":    {&reference.AcquireOptions{Lease: 48 * time.Hour}, lockspec.ErrConfig},
			"hold":    {&reference.AcquireOptions{MaxHold: -1}, lockspec.ErrConfig},
			"wait":    {&reference.AcquireOptions{Wait: -1}, lockspec.ErrConfig},
			"count":   {&reference.AcquireOptions{Count: -1}, lockspec.ErrConfig},
			"mode":    {&reference.AcquireOptions{Mode: "upside down"}, lockspec.ErrConfig},
			"renew":   {&reference.AcquireOptions{Renew: "sometimes"}, lockspec.ErrConfig},
			"readers": {&reference.AcquireOptions{Mode: lockspec.Read}, lockspec.ErrUnsupported},
			"permits": {&reference.AcquireOptions{Count: 2}, lockspec.ErrUnsupported},
		} {
			_, err := e.Acquire(w.Context(), "k", tc.opts)
			if lockspec.OutcomeOf(err) != lockspec.OutcomeOf(tc.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s.count("attempt") != 0 {
			t.Error("asked the backend")
		}
		w.take(e, "k", &reference.AcquireOptions{Mode: lockspec.Write})
	})
}
