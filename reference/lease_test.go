package reference_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

func TestC04_CancelAfterAcquireDoesNotTouchTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		e, _ := w.node(nil)
		ctx, cancel := context.WithCancel(w.Context())
		l, err := e.Acquire(ctx, "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(3 * time.Minute) // C07: six leases
		if err := l.Err(); err != nil || l.Context().Err() != nil || w.free("k") {
			t.Errorf("after a cancel: %v, context %v, free %v", err, l.Context().Err(), w.free("k"))
		}
		w.want(l.Release(ctx), nil) // B05: a dead context still releases
		if !w.free("k") {
			t.Error("not released")
		}
	})
}

func TestC05_DeadlineOfAcquireDoesNotBoundTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		e, _ := w.node(nil)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		l, err := e.Acquire(ctx, "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := l.Context().Deadline(); ok {
			t.Errorf("the lease's context has a deadline, %v", d)
		}
		<-ctx.Done()
		time.Sleep(time.Minute)
		if !l.Held() {
			t.Errorf("ended: %v", l.Err())
		}
	})
}

func TestC06_ValuesOfAcquireAreVisible(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		type key struct{}
		var seen any
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			seen = ctx.Value(key{})
			return s.Backend.Attempt(ctx, c)
		}
		l, err := e.Acquire(context.WithValue(w.Context(), key{}, 7), "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		if l.Context().Value(key{}) != 7 || seen != 7 {
			t.Errorf("lease sees %v, backend %v", l.Context().Value(key{}), seen)
		}
	})
}

func TestC08_DoneContextAndErrAgree(t *testing.T) {
	for name, end := range map[string]func(w *world, l *reference.Lease){
		"release": func(w *world, l *reference.Lease) { l.Release(w.Context()) },
		"loss":    func(w *world, l *reference.Lease) { w.store.Delete("k") },
	} {
		bubble(t, func(w *world) {
			e, _ := w.node(nil)
			l := w.take(e, "k", nil)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for l.Held() {
						time.Sleep(time.Millisecond)
					}
					<-l.Done()
					if l.Err() == nil || context.Cause(l.Context()) != l.Err() || l.Context().Err() != context.Canceled {
						t.Errorf("%s: err %v, cause %v", name, l.Err(), context.Cause(l.Context()))
					}
				})
			}
			time.Sleep(time.Second)
			end(w, l)
			all.Wait()
		})
	}
}

func TestC10_BindTellsWhatCameFirst(t *testing.T) {
	why := errors.New("client went away")
	type key struct{}
	for name, tc := range map[string]struct {
		end  func(w *world, l *reference.Lease, request context.CancelCauseFunc)
		want error
	}{
		"request": {func(_ *world, _ *reference.Lease, request context.CancelCauseFunc) { request(why) }, why},
		"loss":    {func(w *world, _ *reference.Lease, _ context.CancelCauseFunc) { w.store.Delete("k") }, lockspec.ErrLost},
		"release": {func(w *world, l *reference.Lease, _ context.CancelCauseFunc) { l.Release(w.Context()) }, reference.ErrReleased},
	} {
		bubble(t, func(w *world) {
			e, _ := w.node(nil)
			l := w.take(e, "k", nil)
			request, cancel := context.WithCancelCause(context.WithValue(w.Context(), key{}, name))
			bound, unbind := l.Bind(request)
			if bound.Err() != nil || bound.Value(key{}) != name {
				t.Errorf("%s: bound context: %v", name, bound)
			}
			tc.end(w, l, cancel)
			<-bound.Done()
			w.want(context.Cause(bound), tc.want)
			unbind()
			cancel(nil)
			l.Release(w.Context())
			w.want(context.Cause(bound), tc.want)
		})
	}
}

func TestC11_NothingLeaks(t *testing.T) {
	// A bubble fails when a goroutine is left; the fake clock tells of timers.
	f := fakeclock.NewFake(time.Now())
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t}
		n := 0
		s := &spy{onAttempt: func(context.Context, reference.Claim) (reference.Grant, error) {
			switch n++; n % 4 {
			case 0:
				return reference.Grant{}, lockspec.ErrBusy
			case 1:
				panic("broken")
			case 2:
				return reference.Grant{}, lockspec.ErrConfig
			}
			return reference.Grant{Token: int64(n)}, nil
		}, onRelease: func(context.Context, reference.Claim) error { return nil }}
		s.Backend = memoryOn(f)
		e := w.engine(s, &reference.Options{Clock: f})
		for i := range 1000 {
			ctx, cancel := context.WithCancel(w.Context())
			if i%7 == 0 {
				cancel()
			}
			l, err := e.TryAcquire(ctx, "k", &reference.AcquireOptions{MaxHold: time.Hour})
			if err == nil {
				bound, unbind := l.Bind(ctx)
				if i%3 == 0 {
					l.Release(ctx)
				}
				unbind()
				<-bound.Done()
				l.Release(ctx)
			}
			cancel()
		}
		synctest.Wait()
		if d, ok := f.Next(); ok {
			t.Errorf("a timer is left, due in %v", d)
		}
		if q, l := e.Kept(); q != 0 || l != 0 {
			t.Errorf("kept: %d queues, %d leases", q, l)
		}
	})
}

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

// stopped is a clock that goes on while none of its timers fires.
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
