package reference_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// The promise of E06 and E07: a 30 s lease is lost at exactly 27 s after the
// last renewal was sent, whether the next ones failed or never answered.
func TestE06_LostOnTimeWhenRenewalsDoNotCome(t *testing.T) {
	for name, renew := range map[string]func(context.Context, reference.Claim) error{
		"fail":            unavailable,
		"hang":            hang,
		"hang for good":   func(context.Context, reference.Claim) error { time.Sleep(time.Hour); return nil },
		"panic":           func(context.Context, reference.Claim) error { panic("broken") },
		"misconfigured":   func(context.Context, reference.Claim) error { return lockspec.ErrConfig },
		"answer too late": func(context.Context, reference.Claim) error { time.Sleep(40 * time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				e, s := w.node(nil)
				begin := time.Now()
				var lastGood time.Time
				s.onRenew = func(ctx context.Context, c reference.Claim) error {
					if time.Since(begin) < 25*time.Second {
						lastGood = time.Now()
						return s.Backend.Renew(ctx, c)
					}
					return renew(ctx, c)
				}
				l := w.take(e, "k", nil)
				<-l.Done()
				if got := time.Since(lastGood); got != 27*time.Second {
					t.Errorf("lost %v after the last good renewal was sent", got)
				}
				if r := lossReason(context.Cause(l.Context())); r != reference.Expired {
					t.Errorf("reason %q", r)
				}
				time.Sleep(2 * time.Hour)
				w.want(l.Err(), lockspec.ErrLost) // E04: nothing brings it back
				if n := s.count("renew"); n > 20 {
					t.Errorf("%d renewals", n)
				}
			})
		})
	}
}

// E04: an answer that comes after the deadline revives nothing, even if no
// timer has told of the loss.
func TestE04_LateAnswerRevivesNothing(t *testing.T) {
	bubble(t, func(w *world) {
		v := fakeclock.NewView(fakeclock.Real())
		e, s := w.node(&reference.Options{Clock: v})
		l := w.take(e, "k", &reference.AcquireOptions{Renew: lockspec.RenewManual})
		time.Sleep(26 * time.Second)
		s.onRenew = func(ctx context.Context, c reference.Claim) error {
			err := s.Backend.Renew(ctx, c)
			time.Sleep(2 * time.Second)
			return err
		}
		v.Pause()
		err := l.Renew(w.Context(), 0)
		if lossReason(err) != reference.Expired || l.Held() {
			t.Errorf("renewed after its deadline: %v", err)
		}
		if d := time.Until(l.Deadline()); d > 0 {
			t.Errorf("a lost lease has %v left", d)
		}
	})
}

func TestE05_DeadlineCountsFromTheSend(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		slow := func() { time.Sleep(2 * time.Second) }
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			g, err := s.Backend.Attempt(ctx, c)
			slow()
			return g, err
		}
		s.onRenew = func(ctx context.Context, c reference.Claim) error {
			err := s.Backend.Renew(ctx, c)
			slow()
			return err
		}
		begin := time.Now()
		l := w.take(e, "k", nil)
		if got := l.Deadline().Sub(begin); got != 27*time.Second {
			t.Errorf("the first deadline is %v after the send", got)
		}
		time.Sleep(15 * time.Second)
		sent := s.times("renew")
		if got := l.Deadline().Sub(sent[len(sent)-1]); got != 27*time.Second {
			t.Errorf("the deadline is %v after the send of the last renewal", got)
		}
	})
}

func TestE02_RenewsEveryThirdAndSoonerWhenRepliesAreSlow(t *testing.T) {
	for _, tc := range []struct{ reply, every time.Duration }{
		{0, 10 * time.Second},
		{2 * time.Second, 10 * time.Second},
		{7 * time.Second, 7 * time.Second}, // 27 s must hold two more replies
	} {
		bubble(t, func(w *world) {
			e, s := w.node(nil)
			s.onRenew = func(ctx context.Context, c reference.Claim) error {
				err := s.Backend.Renew(ctx, c)
				time.Sleep(tc.reply)
				return err
			}
			l := w.take(e, "k", nil)
			time.Sleep(2 * time.Minute)
			if !l.Held() {
				t.Fatalf("replies of %v: %v", tc.reply, l.Err())
			}
			every := gaps(s.times("renew"))
			if len(every) < 8 {
				t.Fatalf("replies of %v: %d renewals", tc.reply, len(every)+1)
			}
			for _, d := range every[1:] {
				if d != tc.every {
					t.Errorf("replies of %v: renewed after %v, want %v", tc.reply, d, tc.every)
				}
			}
		})
	}
}

func TestE08_TransientFailuresInsideTheMarginLoseNothing(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		begin := time.Now()
		s.onRenew = func(ctx context.Context, c reference.Claim) error {
			if down := time.Since(begin) % (40 * time.Second); down > 15*time.Second && down < 30*time.Second {
				return errFlaky
			}
			return s.Backend.Renew(ctx, c)
		}
		l := w.take(e, "k", nil)
		time.Sleep(10 * time.Minute)
		if !l.Held() {
			t.Errorf("outages of half a lease: %v after %v", l.Err(), time.Since(begin))
		}
	})
}

func TestE09_NotOwnerIsTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		strike func(w *world)
		want   reference.Reason
	}{
		"evicted": {func(w *world) { w.store.Delete("k") }, reference.Expired},
		"taken over": {func(w *world) {
			w.store.Delete("k")
			w.take(w.engine(w.spy(), nil), "k", nil)
		}, reference.TakenOver},
	} {
		bubble(t, func(w *world) {
			e, s := w.node(nil)
			l := w.take(e, "k", nil)
			time.Sleep(time.Second)
			tc.strike(w)
			<-l.Done()
			if r := lossReason(l.Err()); r != tc.want {
				t.Errorf("%s: reason %q, want %q", name, r, tc.want)
			}
			if n := s.count("renew"); n != 1 {
				t.Errorf("%s: %d renewals", name, n)
			}
			w.want(l.Release(w.Context()), lockspec.ErrLost) // B06
			if name == "taken over" && w.free("k") {
				t.Error("a late release freed the new owner's key")
			}
		})
	}
}

func TestE11_GrantThatComesTooLateIsReleased(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			g, err := s.Backend.Attempt(ctx, c)
			time.Sleep(950 * time.Millisecond)
			return g, err
		}
		_, err := e.TryAcquire(w.Context(), "k", &reference.AcquireOptions{Lease: time.Second})
		w.want(err, lockspec.ErrUnavailable)
		time.Sleep(time.Second)
		synctest.Wait()
		if s.count("release") == 0 {
			t.Error("the late grant was not released")
		}
		s.onAttempt = nil
		w.take(e, "k", nil)
	})
	bubble(t, func(w *world) { // no timer tells
		v := fakeclock.NewView(fakeclock.Real())
		e, s := w.node(&reference.Options{Clock: v})
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			time.Sleep(27 * time.Second)
			return s.Backend.Attempt(ctx, c)
		}
		v.Pause()
		_, err := e.TryAcquire(w.Context(), "k", nil)
		w.want(err, lockspec.ErrUnavailable)
		v.Resume()
		synctest.Wait()
		if !w.free("k") {
			t.Error("the late grant was not released")
		}
	})
}

func TestE13_HeldLooksAtTheClock(t *testing.T) {
	bubble(t, func(w *world) {
		v := fakeclock.NewView(fakeclock.Real())
		e, s := w.node(&reference.Options{Clock: v})
		l := w.take(e, "k", nil)
		v.Pause()
		time.Sleep(27*time.Second - 1)
		if !l.Held() {
			t.Fatalf("not held before the deadline: %v", l.Err())
		}
		time.Sleep(time.Nanosecond)
		if l.Context().Err() != nil || s.count("renew") != 0 {
			t.Fatal("a timer fired, the case tries nothing")
		}
		if l.Held() || lossReason(l.Err()) != reference.Expired {
			t.Errorf("held past its deadline: %v", l.Err())
		}
		if !l.Deadline().Equal(v.Now()) {
			t.Errorf("deadline %v, now %v", l.Deadline(), v.Now())
		}
		v.Resume()
		<-l.Done()
		w.want(l.Release(w.Context()), lockspec.ErrLost)
	})
}

func TestE16_MaxHoldEndsATenure(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		begin := time.Now()
		l := w.take(e, "k", &reference.AcquireOptions{MaxHold: 65 * time.Second})
		w.await(l.Done())
		if got := time.Since(begin); got != 65*time.Second || lossReason(l.Err()) != reference.MaxHold {
			t.Errorf("ended after %v: %v", got, l.Err())
		}
		n := s.count("renew")
		time.Sleep(time.Minute)
		if s.count("renew") != n || !w.free("k") {
			t.Error("still renewed")
		}
	})
}

func TestE17_RenewedByHand(t *testing.T) {
	manual := &reference.AcquireOptions{Renew: lockspec.RenewManual}
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		l := w.take(e, "k", manual)
		begin := time.Now()
		<-l.Done()
		if got := time.Since(begin); got != 27*time.Second || s.count("renew") != 0 {
			t.Errorf("lost after %v, %d renewals", got, s.count("renew"))
		}
		w.want(l.Renew(w.Context(), 0), lockspec.ErrLost)
	})
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		l := w.take(e, "k", manual)
		left := func() time.Duration { return time.Until(l.Deadline()) }
		time.Sleep(20 * time.Second)
		w.want(l.Renew(w.Context(), 0), nil)
		if left() != 27*time.Second {
			t.Errorf("renewed: %v left", left())
		}
		w.want(l.Renew(w.Context(), 10*time.Second), nil)
		if left() != 9*time.Second || l.Granted() != 10*time.Second {
			t.Errorf("shortened: %v left, granted %v", left(), l.Granted())
		}
		w.want(l.Renew(w.Context(), -1), lockspec.ErrConfig)
		// A shorter renewal without an answer may have been heard, a longer not.
		s.onRenew = unavailable
		w.want(l.Renew(w.Context(), 5*time.Second), lockspec.ErrUnavailable)
		w.want(l.Renew(w.Context(), time.Minute), lockspec.ErrUnavailable)
		if left() != 4500*time.Millisecond {
			t.Errorf("unheard: %v left", left())
		}
		s.onRenew = hang
		ctx, cancel := context.WithTimeout(w.Context(), time.Second/2)
		defer cancel()
		err := l.Renew(ctx, time.Second)
		w.want(err, context.DeadlineExceeded)
		<-l.Done()
	})
}

// A renewal by hand and one by itself take turns, and one lock at a time.
func TestRenewalsTakeTurns(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		var mu sync.Mutex
		open := 0
		s.onRenew = func(ctx context.Context, c reference.Claim) error {
			mu.Lock()
			if open++; open > 1 {
				t.Error("two renewals at once")
			}
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			open--
			mu.Unlock()
			return s.Backend.Renew(ctx, c)
		}
		l := w.take(e, "k", nil)
		time.Sleep(9 * time.Second)
		for range 5 {
			w.want(l.Renew(w.Context(), 0), nil)
		}
	})
}
