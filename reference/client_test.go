package reference_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
)

func TestClientDescribesWhatItOffers(t *testing.T) {
	e, err := reference.New(memory.New(nil).Backend(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	d := e.Client().(lockspec.Describer).Describe()
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
	for _, f := range []lockspec.Feature{lockspec.Wait, lockspec.FIFO, lockspec.Renew, lockspec.AutoRenew, lockspec.Fencing, lockspec.LossSignal,
		lockspec.HoldCheck, lockspec.IdempotentRelease, lockspec.Cancel, lockspec.StrictTry, lockspec.OwnerChecked} {
		if !d.Claims(f) {
			t.Errorf("%s is not claimed", f)
		}
	}
	for _, f := range []lockspec.Feature{lockspec.Reentrant, lockspec.Shared, lockspec.Permits} {
		if d.Claims(f) {
			t.Errorf("%s is claimed", f)
		}
	}
	b := d.Bounds
	lease := 30 * time.Second
	if b.LossMarginFor(lease) < 3*time.Second || b.RenewEveryFor(lease) != 10*time.Second || b.Takeover == 0 || b.Loss == 0 ||
		b.Cancel != 50*time.Millisecond || b.Poll != time.Second || b.KeyMax != 512 {
		t.Errorf("bounds %+v", b)
	}
	if b.Tolerates != 0 {
		t.Errorf("tolerates %v of a lease it does not know", b.Tolerates)
	}
}

func TestClientToleratesAPartOfItsLease(t *testing.T) {
	e, err := reference.New(memory.New(nil).Backend(nil), &reference.Options{Lease: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if got := e.Client().(lockspec.Describer).Describe().Bounds.Tolerates; got != 500*time.Millisecond {
		t.Errorf("tolerates %v", got)
	}
}

// powers names the optional powers of a lease.
func powers(l lockspec.Lease) (p []string) {
	add := func(name string, ok bool) {
		if ok {
			p = append(p, name)
		}
	}
	_, ok := l.(lockspec.Fenced)
	add("fenced", ok)
	_, ok = l.(lockspec.Renewer)
	add("renewer", ok)
	_, ok = l.(lockspec.RenewalSource)
	add("renewals", ok)
	_, ok = l.(interface {
		lockspec.Notifier
		lockspec.LossStamper
		lockspec.HoldChecker
		lockspec.Sender
	})
	add("rest", ok)
	return p
}

func TestLeasesHaveThePowersTheyKeep(t *testing.T) {
	bubble(t, func(w *world) {
		tokenless := w.spy()
		tokenless.onAttempt = func(context.Context, reference.Claim) (reference.Grant, error) { return reference.Grant{}, nil }
		tokenless.onRelease = func(context.Context, reference.Claim) error { return nil }
		bare := &spy{Backend: session{}, onAttempt: tokenless.onAttempt}
		for name, tc := range map[string]struct {
			b    reference.Backend
			want int
		}{"lease": {w.spy(), 4}, "tokenless": {tokenless, 3}, "session": {session{}, 2}, "bare": {bare, 1}} {
			l, err := w.engine(tc.b, nil).Client().Acquire(w.Context(), lockspec.Request{Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			if p := powers(l); len(p) != tc.want {
				t.Errorf("%s: %v", name, p)
			}
			if f, ok := l.(lockspec.Fenced); ok && f.Token() <= 0 {
				t.Errorf("%s: token %d", name, f.Token())
			}
			w.want(l.Release(w.Context()), nil)
		}
	})
}

func TestClientWaitsAsAsked(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := w.engine(w.spy(), nil).Client(), w.engine(w.spy(), nil).Client()
		l, err := a.Acquire(w.Context(), lockspec.Request{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		acquire := func(wait time.Duration) (time.Duration, error) {
			begin := time.Now()
			got, err := b.Acquire(w.Context(), lockspec.Request{Key: "k", Wait: wait})
			if (got == nil) == (err == nil) {
				t.Errorf("lease %v, error %v", got, err)
			}
			return time.Since(begin), err
		}
		if d, err := acquire(0); d != 0 || !errors.Is(err, lockspec.ErrBusy) {
			t.Errorf("no wait: %v after %v", err, d)
		}
		if d, err := acquire(time.Second); d != time.Second || !errors.Is(err, lockspec.ErrTimeout) {
			t.Errorf("1 s: %v after %v", err, d)
		}
		time.AfterFunc(time.Minute, func() { l.Release(w.Context()) })
		if d, err := acquire(lockspec.NoLimit); d < time.Minute || d > time.Minute+time.Second || err != nil {
			t.Errorf("no limit: %v after %v", err, d)
		}
		_, err = b.Acquire(w.Context(), lockspec.Request{Key: "k2", Wait: -2})
		w.want(err, lockspec.ErrConfig)
		w.want(b.Close(), nil)
		_, err = b.Acquire(w.Context(), lockspec.Request{Key: "k2"})
		w.want(err, reference.ErrClosed)
	})
}

func TestClientSignalsLoss(t *testing.T) {
	bubble(t, func(w *world) {
		c := w.engine(w.spy(), nil).Client()
		take := func(key string) lockspec.Lease {
			l, err := c.Acquire(w.Context(), lockspec.Request{Key: key, Renew: lockspec.RenewManual, Lease: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := take("k")
		n := l.(lockspec.Notifier)
		w.want(l.(lockspec.HoldChecker).Held(w.Context()), nil)
		if n.Cause() != nil {
			t.Errorf("cause of no loss: %v", n.Cause())
		}
		begin := time.Now()
		<-n.Lost()
		if d := time.Since(begin); d != 900*time.Millisecond {
			t.Errorf("signalled after %v", d)
		}
		w.want(n.Cause(), lockspec.ErrLost)
		w.want(l.(lockspec.HoldChecker).Held(w.Context()), lockspec.ErrLost)
		w.want(l.Release(w.Context()), lockspec.ErrLost)

		l = take("k2")
		w.want(l.Release(w.Context()), nil)
		w.want(l.Release(w.Context()), nil)
		w.want(l.(lockspec.HoldChecker).Held(w.Context()), lockspec.ErrNotHeld)
		n = l.(lockspec.Notifier)
		time.Sleep(time.Minute)
		select {
		case <-n.Lost():
			t.Error("a release was signalled as a loss")
		default:
		}
		if n.Cause() != nil || l.(lockspec.LossStamper).LostAt() != 0 {
			t.Errorf("a release has a cause of loss: %v", n.Cause())
		}
	})
}

func TestClientShowsRenewals(t *testing.T) {
	bubble(t, func(w *world) {
		l, err := w.engine(w.spy(), nil).Client().Acquire(w.Context(), lockspec.Request{Key: "k", Lease: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		shown := l.(lockspec.RenewalSource).Renewals()
		time.Sleep(4*time.Second + 1)
		if len(shown) != 4 {
			t.Errorf("%d renewals shown", len(shown))
		}
		if r := <-shown; r.Lease != 3*time.Second || r.Sent != 0 {
			t.Errorf("renewal %+v in a bubble", r)
		}
		time.Sleep(time.Hour) // nobody looks: no harm
		w.want(l.(lockspec.HoldChecker).Held(w.Context()), nil)
	})
}

// Stamps are raw CLOCK_MONOTONIC, taken before the send and at the loss.
func TestStamps(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no clock that processes share")
	}
	store := memory.New(nil)
	s := &spy{Backend: store.Backend(nil)}
	var during int64
	s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
		during, _ = fakeclock.Monotonic()
		return s.Backend.Attempt(ctx, c)
	}
	e, err := reference.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	before, _ := fakeclock.Monotonic()
	l, err := e.Client().Acquire(t.Context(), lockspec.Request{Key: "k", Lease: 60 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if sent := int64(l.(lockspec.Sender).Sent()); sent < before || sent > during {
		t.Errorf("sent at %d, not in [%d, %d]", sent, before, during)
	}
	renewal := <-l.(lockspec.RenewalSource).Renewals()
	if int64(renewal.Sent) < during {
		t.Errorf("renewal sent at %d, before the grant", renewal.Sent)
	}
	before, _ = fakeclock.Monotonic()
	store.Delete("k")
	<-l.(lockspec.Notifier).Lost()
	after, _ := fakeclock.Monotonic()
	if at := int64(l.(lockspec.LossStamper).LostAt()); at < before || at > after {
		t.Errorf("lost at %d, not in [%d, %d]", at, before, after)
	}
}
