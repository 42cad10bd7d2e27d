package reference_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
)

func TestA08_OwnersAreUniqueAndNeverMatchAnother(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		for range 100 {
			w.take(e, "k", nil).Release(w.Context())
		}
		l := w.take(e, "k", nil)
		e.TryAcquire(w.Context(), "k", nil)
		owners := map[string]bool{}
		for _, c := range s.calls {
			if c.op != "attempt" {
				continue
			}
			if owners[c.claim.Owner] || len(c.claim.Owner) != 32 {
				t.Fatalf("owner %q, again or too short", c.claim.Owner)
			}
			owners[c.claim.Owner] = true
		}
		owner := w.store.Inspect("k")[0].Owner
		for name, other := range map[string]string{
			"empty": "", "prefix": owner[:31], "longer": owner + "0", "pattern": "*", "case": strings.ToUpper(owner) + " ",
		} {
			if err := w.store.Release("k", other); err == nil {
				t.Errorf("%s owner released the key", name)
			}
			if err := w.store.Renew("k", other, time.Minute); err == nil {
				t.Errorf("%s owner renewed the key", name)
			}
			if _, err := w.store.Acquire(memory.Request{Key: "k", Owner: other, Lease: time.Minute}); err == nil {
				t.Errorf("%s owner was granted the key", name)
			}
		}
		w.want(l.Release(w.Context()), nil)
	})
}

// A lost reply is neither a false busy nor an orphan: the next attempt has the
// same owner.
func TestLostReplyIsFoundAgain(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		n := 0
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			g, err := s.Backend.Attempt(ctx, c)
			if n++; n <= 2 {
				return reference.Grant{}, errFlaky
			}
			return g, err
		}
		l, err := e.Acquire(w.Context(), "k", nil)
		if err != nil || n != 3 {
			t.Fatalf("%v after %d attempts", err, n)
		}
		if got := w.store.Inspect("k"); len(got) != 1 {
			t.Errorf("holders %v", got)
		}
		w.want(l.Release(w.Context()), nil)
		if s.count("release") != 1 || !w.free("k") {
			t.Error("released otherwise than once")
		}
		n = 0
		_, err = e.TryAcquire(w.Context(), "k", nil)
		w.want(err, lockspec.ErrUnavailable)
		synctest.Wait()
		if !w.free("k") {
			t.Error("a try whose reply was lost left an orphan")
		}
	})
}

// What surely never left needs no cleaning up.
func TestUnsentAttemptIsNotReleased(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		s.onAttempt = func(context.Context, reference.Claim) (reference.Grant, error) {
			return reference.Grant{}, fmt.Errorf("%w: %w", reference.ErrNotSent, errFlaky)
		}
		_, err := e.TryAcquire(w.Context(), "k", nil)
		w.want(err, lockspec.ErrUnavailable)
		synctest.Wait()
		if s.count("release") != 0 {
			t.Error("released what was never asked for")
		}
	})
}

func TestF06_FailedAttemptsExposeNoToken(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		fail := errFlaky
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			g, err := s.Backend.Attempt(ctx, c)
			if fail != nil && err == nil {
				return g, fail // a token beside an error
			}
			return g, err
		}
		seen := map[int64]bool{}
		for i := range 20 {
			fail = nil
			if i%2 == 0 {
				fail = errFlaky
			}
			l, err := e.TryAcquire(w.Context(), "k", nil)
			if (l == nil) != (fail != nil) || (err == nil) != (fail == nil) {
				t.Fatalf("lease %v, error %v", l, err)
			}
			synctest.Wait()
			if l != nil {
				token, ok := l.Token()
				if !ok || seen[token] {
					t.Fatalf("token %d, %v, seen %v", token, ok, seen)
				}
				seen[token] = true
				l.Release(w.Context())
			}
		}
	})
}

// H04: whatever the backend does and whenever the caller gives up: a lease or
// an error, an outcome that the contract knows, and nothing left in the end.
func TestH04_NeverNeitherNeverBoth(t *testing.T) {
	type step struct {
		do    int
		delay time.Duration
	}
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{rapid.IntRange(0, 6).Draw(rt, "do"), time.Duration(rapid.SampledFrom([]int{0, 1, 400, 900, 2000}).Draw(rt, "ms")) * time.Millisecond}
		}), 1, 12).Draw(rt, "steps")
		giveUp := time.Duration(rapid.IntRange(0, 3000).Draw(rt, "giveUp")) * time.Millisecond
		wait := time.Duration(rapid.IntRange(0, 3000).Draw(rt, "wait")) * time.Millisecond
		try := rapid.Bool().Draw(rt, "try")
		var wrong error
		bubble(t, func(w *world) {
			e, s := w.node(&reference.Options{Lease: time.Second})
			n := 0
			s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				step := steps[n%len(steps)]
				n++
				if step.do == 0 { // lost on its way there
					time.Sleep(step.delay)
					return reference.Grant{}, errFlaky
				}
				g, err := s.Backend.Attempt(ctx, c)
				time.Sleep(step.delay)
				switch step.do {
				case 1: // lost on its way back
					return reference.Grant{}, errFlaky
				case 2:
					panic("broken")
				case 3:
					s.Backend.Release(ctx, c)
					return reference.Grant{}, lockspec.ErrBusy
				case 4:
					s.Backend.Release(ctx, c)
					return reference.Grant{}, fmt.Errorf("%w: no", lockspec.ErrConfig)
				}
				return g, err
			}
			ctx, cancel := context.WithTimeout(w.Context(), giveUp)
			defer cancel()
			var l *reference.Lease
			var err error
			if try {
				l, err = e.TryAcquire(ctx, "k", nil)
			} else {
				l, err = e.Acquire(ctx, "k", &reference.AcquireOptions{Wait: wait})
			}
			switch o := lockspec.OutcomeOf(err); {
			case (l == nil) == (err == nil):
				wrong = fmt.Errorf("lease %v, error %v", l, err)
			case o == lockspec.Failed && !errors.As(err, new(*reference.PanicError)):
				wrong = fmt.Errorf("no outcome: %v", err)
			case o == lockspec.Timeout && try || o == lockspec.Busy && !try:
				wrong = fmt.Errorf("outcome %q, try %v", o, try)
			case l != nil && !l.Held():
				wrong = fmt.Errorf("granted and not held: %v", l.Err())
			}
			if l != nil {
				l.Release(w.Context())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if s.count("renew") == 0 && !w.free("k") {
				wrong = errors.Join(wrong, errors.New("an orphan is left"))
			}
			if q, l := e.Kept(); q != 0 || l != 0 {
				wrong = errors.Join(wrong, fmt.Errorf("kept: %d queues, %d leases", q, l))
			}
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

func TestH06_PanicBecomesAnError(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			s.Backend.Attempt(ctx, c)
			panic("broken: orders/42")
		}
		for _, acquire := range []func(context.Context, string, *reference.AcquireOptions) (*reference.Lease, error){e.TryAcquire, e.Acquire} {
			_, err := acquire(w.Context(), "orders/42", nil)
			var p *reference.PanicError
			if !errors.As(err, &p) || p.Value != "broken: orders/42" || len(p.Stack) == 0 {
				t.Errorf("got %v", err)
			}
			if strings.Contains(err.Error(), "42") || lockspec.OutcomeOf(err) != lockspec.Failed {
				t.Errorf("message %q, outcome %q", err, lockspec.OutcomeOf(err))
			}
			synctest.Wait()
			if !w.free("orders/42") {
				t.Error("the lock leaked")
			}
		}
	})
}

func TestH07_CausesAreReachableAndSayNoKey(t *testing.T) {
	secret := "orders/42?password=hunter2"
	op := &net.OpError{Op: "dial", Net: "tcp " + secret, Err: os.NewSyscallError("connect "+secret, errFlaky)}
	for name, tc := range map[string]struct {
		cause error
		want  error
	}{
		"unavailable":      {op, lockspec.ErrUnavailable},
		"socket time-out":  {&net.OpError{Op: secret, Err: os.ErrDeadlineExceeded}, lockspec.ErrUnavailable},
		"own deadline":     {fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), lockspec.ErrUnavailable},
		"a foreign word":   {fmt.Errorf("%s: %w", secret, lockspec.ErrTimeout), lockspec.ErrUnavailable},
		"misconfigured":    {fmt.Errorf("%w: %s: %w", lockspec.ErrConfig, secret, op), lockspec.ErrConfig},
		"busy with detail": {fmt.Errorf("%w: %s: %w", lockspec.ErrBusy, secret, op), lockspec.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				s := w.spy()
				s.onAttempt = func(context.Context, reference.Claim) (reference.Grant, error) { return reference.Grant{}, tc.cause }
				quiet, loud := w.engine(s, nil), w.engine(s, &reference.Options{CauseText: true})
				_, err := quiet.TryAcquire(w.Context(), secret, nil)
				w.want(err, tc.want)
				if o := lockspec.OutcomeOf(err); o != lockspec.OutcomeOf(tc.want) {
					t.Errorf("outcome %q", o)
				}
				if strings.Contains(err.Error(), "42") || strings.Contains(err.Error(), "hunter") {
					t.Errorf("message %q", err)
				}
				var got *net.OpError
				if errors.As(tc.cause, &got) && (!errors.As(err, &got) || got.Op == "") {
					t.Errorf("the cause is out of reach: %v", err)
				}
				if errors.Is(tc.cause, errFlaky) && !errors.Is(err, errFlaky) {
					t.Errorf("the cause is out of reach: %v", err)
				}
				_, err = loud.TryAcquire(w.Context(), secret, nil)
				if !strings.Contains(err.Error(), "hunter") {
					t.Errorf("asked for the cause's text and got %q", err)
				}
			})
		})
	}
}

func TestH10_ReasonsOfLoss(t *testing.T) {
	err := error(&reference.LostError{Reason: reference.TakenOver, Token: 7, Err: errFlaky})
	if !errors.Is(err, lockspec.ErrLost) || !errors.Is(err, errFlaky) || err.Error() != "lock lost: taken over" {
		t.Errorf("%v", err)
	}
	if errors.Is(err, lockspec.ErrNotHeld) || errors.Is(reference.ErrReleased, lockspec.ErrLost) {
		t.Error("a loss is a release")
	}
	seen := map[reference.Reason]bool{}
	for _, r := range []reference.Reason{reference.Expired, reference.TakenOver, reference.ConnectionLost, reference.MaxHold} {
		if seen[r] || r == "" {
			t.Errorf("reason %q", r)
		}
		seen[r] = true
	}
}
