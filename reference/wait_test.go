package reference_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

func TestC01_CancelledContextAsksNothing(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		_, err := e.TryAcquire(ctx, "k", nil)
		w.want(err, context.Canceled)
		_, err = e.Acquire(ctx, "k", nil)
		w.want(err, context.Canceled)
		if n := s.count("attempt"); n != 0 {
			t.Errorf("asked the backend %d times", n)
		}
	})
}

func TestC03_CancelDuringAttemptReleasesItsGrant(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		s.onAttempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			g, err := s.Backend.Attempt(ctx, c)
			time.Sleep(time.Second)
			if ctx.Err() != nil {
				t.Error("the attempt was cut off: now nobody knows what it won")
			}
			return g, err
		}
		for name, acquire := range map[string]func(context.Context, string, *reference.AcquireOptions) (*reference.Lease, error){
			"try": e.TryAcquire, "wait": e.Acquire,
		} {
			ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
			begin := time.Now()
			_, err := acquire(ctx, "k", nil)
			cancel()
			w.want(err, context.DeadlineExceeded)
			if errors.Is(err, lockspec.ErrBusy) {
				t.Errorf("%s: a cancelled call is busy: %v", name, err)
			}
			if d := time.Since(begin); d != 100*time.Millisecond {
				t.Errorf("%s: returned after %v", name, d)
			}
			if w.free("k") {
				t.Errorf("%s: the attempt won nothing, the case tries nothing", name)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if !w.free("k") {
				t.Errorf("%s: an orphan is left", name)
			}
		}
	})
}

func TestD02_WaitElapses(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.node(nil)
		b, _ := w.node(nil)
		w.take(a, "k", nil)
		begin := time.Now()
		_, err := b.Acquire(w.Context(), "k", &reference.AcquireOptions{Wait: 3 * time.Second})
		w.want(err, lockspec.ErrTimeout)
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("elapsed %v", d)
		}
		var e *reference.Error
		if !errors.As(err, &e) || e.Attempts < 5 {
			t.Errorf("attempts are not told: %v", err)
		}
	})
}

func TestD03_TryIsOneAttempt(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.node(nil)
		b, s := w.node(nil)
		w.take(a, "k", nil)
		begin := time.Now()
		_, err := b.TryAcquire(w.Context(), "k", nil)
		w.want(err, lockspec.ErrBusy)
		if s.count("attempt") != 1 || time.Since(begin) != 0 {
			t.Errorf("%d attempts in %v", s.count("attempt"), time.Since(begin))
		}
	})
}

// pollsOf holds a key for an hour and lets one waiter poll it that long.
func pollsOf(w *world, opts *reference.Options, wait time.Duration) []time.Duration {
	a, _ := w.node(nil)
	w.take(a, "k", nil)
	b, s := w.node(opts)
	_, err := b.Acquire(w.Context(), "k", &reference.AcquireOptions{Wait: wait})
	w.want(err, lockspec.ErrTimeout)
	return gaps(s.times("attempt"))
}

func TestD04_BackoffDoublesToItsCap(t *testing.T) {
	bubble(t, func(w *world) {
		got := pollsOf(w, &reference.Options{Rand: zero{}}, 5*time.Second)
		want := []time.Duration{50, 100, 200, 400, 800, 1000, 1000, 1000}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if !slices.Equal(got, want) {
			t.Errorf("delays %v, want %v", got, want)
		}
	})
	bubble(t, func(w *world) {
		got := pollsOf(w, &reference.Options{Rand: zero{}, MinRetryDelay: 10 * time.Millisecond, MaxRetryDelay: 25 * time.Millisecond}, 100*time.Millisecond)
		want := []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 25 * time.Millisecond, 25 * time.Millisecond}
		if !slices.Equal(got, want) {
			t.Errorf("delays %v, want %v", got, want)
		}
	})
}

func TestD05_EqualJitter(t *testing.T) {
	bubble(t, func(w *world) {
		d := time.Second
		got := pollsOf(w, &reference.Options{MinRetryDelay: d, MaxRetryDelay: d}, 45*time.Minute)
		if len(got) < 3000 {
			t.Fatalf("only %d delays", len(got))
		}
		var quarter [4]int
		for _, g := range got {
			if g < d/2 || g > d {
				t.Fatalf("delay %v is not in [%v, %v]", g, d/2, d)
			}
			quarter[min(3, int(8*(g-d/2)/d))]++
		}
		// Each quarter expects a fourth; seven standard deviations do not happen.
		for i, n := range quarter {
			if mean := len(got) / 4; n < mean-170 || n > mean+170 {
				t.Errorf("%d of %d delays in quarter %d", n, len(got), i)
			}
		}
	})
}

func TestD06_OldWaiterPollsAsOftenAsNew(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.node(nil)
		w.take(a, "k", nil)
		var nodes [2]*spy
		var all sync.WaitGroup
		for i := range nodes {
			e, s := w.node(nil)
			nodes[i] = s
			all.Go(func() {
				e.Acquire(w.Context(), "k", &reference.AcquireOptions{Wait: 4 * time.Minute})
			})
			time.Sleep(time.Minute * time.Duration(1-i))
		}
		time.Sleep(10 * time.Second)
		before := [2]int{nodes[0].count("attempt"), nodes[1].count("attempt")}
		time.Sleep(2 * time.Minute)
		older, newer := nodes[0].count("attempt")-before[0], nodes[1].count("attempt")-before[1]
		all.Wait()
		if older < newer*8/10 || newer < older*8/10 {
			t.Errorf("in two minutes the old waiter polled %d times, the new one %d times", older, newer)
		}
	})
}

func TestD07_LocalWaitersAreServedInOrder(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		l := w.take(e, "k", nil)
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				l, err := e.Acquire(w.Context(), "k", nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				l.Release(w.Context())
			})
			synctest.Wait()
		}
		polls := s.count("attempt") // D08: the front one's alone
		if polls > 3 {
			t.Errorf("20 waiters made %d attempts at once", polls)
		}
		begin := time.Now()
		l.Release(w.Context())
		all.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("served in the order %v", order)
		}
		// D09: nobody waited for a poll.
		if d := time.Since(begin); d != 200*time.Millisecond {
			t.Errorf("20 tenures of 10 ms took %v", d)
		}
	})
}

func TestD10_WaitersThatLeaveLeaveTheRestInOrder(t *testing.T) {
	for _, leaver := range []string{"middle", "front", "last"} {
		bubble(t, func(w *world) {
			e, _ := w.node(nil)
			l := w.take(e, "k", nil)
			var mu sync.Mutex
			var order []string
			var all sync.WaitGroup
			leave := map[string]context.CancelFunc{}
			for _, name := range []string{"front", "middle", "last"} {
				ctx, cancel := context.WithCancel(w.Context())
				leave[name] = cancel
				all.Go(func() {
					l, err := e.Acquire(ctx, "k", nil)
					if name == leaver {
						w.want(err, context.Canceled)
						return
					}
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
					l.Release(ctx)
				})
				synctest.Wait()
			}
			leave[leaver]()
			synctest.Wait() // D11: the next of a front that left asks at once
			begin := time.Now()
			l.Release(w.Context())
			all.Wait()
			if d := time.Since(begin); d != 0 || len(order) != 2 || order[0] == "last" {
				t.Errorf("%s left: served %v after %v", leaver, order, d)
			}
			for _, cancel := range leave {
				cancel()
			}
		})
	}
}

func TestD13_NothingIsKeptOfIdleKeys(t *testing.T) {
	bubble(t, func(w *world) {
		e, _ := w.node(nil)
		var all sync.WaitGroup
		for i := range 200 {
			key := fmt.Sprint("k", i%100)
			all.Go(func() {
				l, err := e.Acquire(w.Context(), key, nil)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				l.Release(w.Context())
			})
		}
		synctest.Wait()
		if q, l := e.Kept(); q != 100 || l != 100 {
			t.Errorf("in use: %d queues, %d leases", q, l)
		}
		all.Wait()
		if q, l := e.Kept(); q != 0 || l != 0 || !e.Freed() {
			t.Errorf("idle: %d queues, %d leases, freed %v", q, l, e.Freed())
		}
		if n := w.store.Len(); n != 0 {
			t.Errorf("the service keeps %d keys", n)
		}
	})
}

func TestD16_WhatNoRetryCanFixEndsTheWait(t *testing.T) {
	for _, kind := range []error{lockspec.ErrConfig, lockspec.ErrInvalidKey, lockspec.ErrUnsupported} {
		bubble(t, func(w *world) {
			e, s := w.node(nil)
			cause := fmt.Errorf("%w: no such table", kind)
			s.onAttempt = func(context.Context, reference.Claim) (reference.Grant, error) {
				return reference.Grant{}, cause
			}
			begin := time.Now()
			_, err := e.Acquire(w.Context(), "k", nil)
			w.want(err, kind)
			if lockspec.OutcomeOf(err) != lockspec.OutcomeOf(kind) {
				t.Errorf("outcome %q", lockspec.OutcomeOf(err))
			}
			if s.count("attempt") != 1 || time.Since(begin) != 0 || s.count("release") != 0 {
				t.Errorf("%d attempts in %v, %d releases", s.count("attempt"), time.Since(begin), s.count("release"))
			}
		})
	}
}

// H01, H02: a wait is judged by the service's last word.
func TestH02_OutageIsNotContention(t *testing.T) {
	busy := func() (reference.Grant, error) { return reference.Grant{}, lockspec.ErrBusy }
	down := func() (reference.Grant, error) { return reference.Grant{}, errFlaky }
	for name, tc := range map[string]struct {
		first, then func() (reference.Grant, error)
		want        error
	}{
		"never there":  {down, down, lockspec.ErrUnavailable},
		"held":         {busy, busy, lockspec.ErrTimeout},
		"went away":    {busy, down, lockspec.ErrUnavailable},
		"came back":    {down, busy, lockspec.ErrTimeout},
		"never spoken": {nil, nil, lockspec.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				e, s := w.node(nil)
				begin := time.Now()
				s.onAttempt = func(ctx context.Context, _ reference.Claim) (reference.Grant, error) {
					switch {
					case tc.first == nil:
						<-ctx.Done()
						return reference.Grant{}, ctx.Err()
					case time.Since(begin) < time.Second:
						return tc.first()
					default:
						return tc.then()
					}
				}
				var all sync.WaitGroup
				for range 2 { // the second never comes to ask
					all.Go(func() {
						_, err := e.Acquire(w.Context(), "k", &reference.AcquireOptions{Wait: 4 * time.Second})
						w.want(err, tc.want)
						if o := lockspec.OutcomeOf(err); o != lockspec.OutcomeOf(tc.want) {
							t.Errorf("outcome %q", o)
						}
					})
					synctest.Wait()
				}
				all.Wait()
			})
		})
	}
}

// A service that hangs is asked one question at a time.
func TestHungServiceGetsOneAttempt(t *testing.T) {
	bubble(t, func(w *world) {
		e, s := w.node(nil)
		answer := make(chan struct{})
		s.onAttempt = func(context.Context, reference.Claim) (reference.Grant, error) {
			<-answer // whatever the context says
			return reference.Grant{}, errFlaky
		}
		_, err := e.Acquire(w.Context(), "k", &reference.AcquireOptions{Wait: time.Minute})
		w.want(err, lockspec.ErrUnavailable)
		if n := s.count("attempt"); n != 1 {
			t.Errorf("%d attempts are open", n)
		}
		close(answer)
	})
}
