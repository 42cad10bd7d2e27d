package reference_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// A session has no lease: it lives as long as probes say so.
func TestSession(t *testing.T) {
	for name, tc := range map[string]struct {
		probe func(context.Context, reference.Claim) error
		lost  time.Duration // after the last good probe
	}{
		"gone":   {func(context.Context, reference.Claim) error { return lockspec.ErrNotHeld }, 2 * time.Second},
		"silent": {hang, 6 * time.Second},
	} {
		bubble(t, func(w *world) {
			s := w.spy()
			s.Backend = session{s.Backend}
			e := w.engine(s, nil)
			begin := time.Now()
			s.onRenew = func(ctx context.Context, c reference.Claim) error {
				if time.Since(begin) <= 20*time.Second {
					return nil
				}
				return tc.probe(ctx, c)
			}
			l := w.take(e, "k", nil)
			if l.Granted() != 0 {
				t.Errorf("granted %v", l.Granted())
			}
			<-l.Done()
			if got := time.Since(begin); got != 20*time.Second+tc.lost || lossReason(l.Err()) != reference.ConnectionLost {
				t.Errorf("%s: lost after %v: %v", name, got, l.Err())
			}
		})
	}
	bubble(t, func(w *world) { // the backend hears of it first
		news := make(chan error, 1)
		s := w.spy()
		s.Backend = session{s.Backend}
		s.onAttempt = func(context.Context, reference.Claim) (reference.Grant, error) {
			return reference.Grant{Lost: news}, nil
		}
		l := w.take(w.engine(s, nil), "k", nil)
		if _, ok := l.Token(); ok {
			t.Error("a token out of nowhere")
		}
		close(news)
		<-l.Done()
		if r := lossReason(l.Err()); r != reference.ConnectionLost {
			t.Errorf("reason %q", r)
		}
	})
}

type session struct{ reference.Backend }

func (session) Timing() reference.Timing                       { return reference.Session(2 * time.Second) }
func (session) Renew(context.Context, reference.Claim) error   { return nil }
func (session) Close() error                                   { return nil }
func (session) Release(context.Context, reference.Claim) error { return nil }
func (session) Attempt(context.Context, reference.Claim) (reference.Grant, error) {
	return reference.Grant{Token: 1}, nil
}
func (session) Describe() lockspec.Description { return lockspec.Description{Class: lockspec.Session} }
