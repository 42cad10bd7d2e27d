package fakeclock

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestViewRunsAtItsRate(t *testing.T) {
	f := NewFake(epoch)
	v := NewView(f)
	v.SetRate(2)
	timer := v.NewTimer(4 * time.Second)
	advance(t, f, time.Second)
	if got := v.Since(epoch); got != 2*time.Second {
		t.Errorf("showed %v after 1 s at rate 2", got)
	}
	v.SetRate(0.5)
	if d, _ := f.Next(); d != 4*time.Second {
		t.Errorf("2 s at rate 0.5 are due in %v, want 4s", d)
	}
	advance(t, f, 4*time.Second)
	if !fired(timer.C) {
		t.Error("did not fire")
	}
	if wall := v.Wall(); !wall.Equal(epoch.Add(4 * time.Second)) {
		t.Errorf("wall %v does not run as the view does", wall)
	}
}

func TestStandingStill(t *testing.T) {
	for name, tc := range map[string]struct {
		stop  func(*View)
		shows time.Duration // after 10 s, the last 9 of them stopped
		due   bool          // a timer of 5 s
	}{
		"paused":    {(*View).Pause, 10 * time.Second, true},
		"suspended": {(*View).Suspend, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFake(epoch)
			v := NewView(f)
			timer := v.NewTimer(5 * time.Second)
			advance(t, f, time.Second)
			tc.stop(v)
			advance(t, f, 9*time.Second)
			if fired(timer.C) {
				t.Error("fired while the node stood still")
			}
			if got := v.Since(epoch); got != tc.shows {
				t.Errorf("shows %v, want %v", got, tc.shows)
			}
			v.Resume()
			if err := f.Settle(bounded(t)); err != nil {
				t.Fatal(err)
			}
			if got := fired(timer.C); got != tc.due {
				t.Errorf("fired at resume: %v, want %v", got, tc.due)
			}
		})
	}
}

// A view of the real clock lives in a bubble as well as outside.
func TestViewInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		v := NewView(Real())
		v.SetRate(0.5)
		ctx, cancel := v.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-ctx.Done()
		if got := time.Since(begin); got != 2*time.Second {
			t.Errorf("1 s at rate 0.5 took %v", got)
		}
		if ns := Stamp(v); ns != 0 {
			t.Errorf("a stamp in a bubble: %d", ns)
		}
	})
}

// Whatever happens to a view, it shows the sum of rate × time while awake, and
// a timer fires at the first moment at or after its own that the node is awake.
func TestViewIsTheSumOfItsRates(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := NewFake(epoch)
		v := NewView(f)
		shows, rate, paused, suspended := time.Duration(0), 1.0, false, false
		target := time.Duration(rapid.IntRange(1, 20).Draw(rt, "target")) * time.Second
		timer := v.NewTimer(target)
		rang := false
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				rate = []float64{0.5, 1, 2, 4}[rapid.IntRange(0, 3).Draw(rt, "rate")]
				v.SetRate(rate)
			case 1:
				v.Pause()
				paused = true
			case 2:
				v.Suspend()
				paused, suspended = true, true
			case 3:
				v.Resume()
				paused, suspended = false, false
			case 4:
				for left := 2 * time.Second; left > 0; {
					d := left
					if next, ok := f.Next(); ok {
						d = min(d, next)
					}
					advance(t, f, d)
					left -= d
					if !suspended {
						shows += time.Duration(rate * float64(d))
					}
				}
			}
			if err := f.Settle(bounded(t)); err != nil {
				rt.Fatal(err)
			}
			if got := v.Since(epoch); got != shows {
				rt.Fatalf("shows %v, want %v", got, shows)
			}
			rang = rang || fired(timer.C)
			if shows < target && rang || shows >= target && !paused && !rang {
				rt.Fatalf("shows %v, paused %v, timer of %v fired: %v", shows, paused, target, rang)
			}
		}
	})
}

func TestMonotonic(t *testing.T) {
	a, ok := Monotonic()
	if ok != (runtime.GOOS == "linux") {
		t.Fatalf("available: %v on %s", ok, runtime.GOOS)
	}
	if !ok {
		return
	}
	if b, _ := Monotonic(); a <= 0 || b < a {
		t.Errorf("%d, then %d", a, b)
	}
	if Stamp(Real()) < a || Stamp(NewView(Real())) < a {
		t.Error("no stamp beside the real clock")
	}
	if ns := Stamp(NewFake(epoch)); ns != 0 {
		t.Errorf("a stamp beside a fake clock: %d", ns)
	}
}

// TestReadingIsOneMoment: whoever is preempted between the clock and the stamp
// reads both again.
func TestReadingIsOneMoment(t *testing.T) {
	if _, ok := Monotonic(); !ok {
		t.Skip("this system has no raw monotonic clock")
	}
	const preempted = 20 * time.Millisecond
	reads := 0
	now, stamp := together(func() time.Time {
		reads++
		if reads > 1 {
			return time.Now()
		}
		time.Sleep(preempted)
		now := time.Now()
		time.Sleep(preempted)
		return now
	})
	if reads < 2 {
		t.Fatal("the first reading, in a wide bracket, was taken")
	}
	// How far the two clocks are apart does not change.
	again, stampAgain := Reading(Real())
	if off := (again.Sub(now) - time.Duration(stampAgain-stamp)).Abs(); off > preempted/2 {
		t.Errorf("the clock and its stamp are %v apart", off)
	}
	if n, s := Reading(NewFake(epoch)); !n.Equal(epoch) || s != 0 {
		t.Errorf("a fake clock reads %v, %d", n, s)
	}
	v := NewView(Real())
	v.SetRate(2)
	if n, s := Reading(v); s == 0 || v.Since(n) > time.Minute {
		t.Errorf("a view reads %v, %d", n, s)
	}
}

func TestRealMirrorsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begin := Real(), time.Now()
		timer, ticker := c.NewTimer(time.Second), c.NewTicker(time.Second)
		defer ticker.Stop()
		<-timer.C
		<-ticker.C
		if err := c.Sleep(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		done := make(chan time.Time, 1)
		c.AfterFunc(time.Second, func() { done <- c.Now() })
		if got := (<-done).Sub(begin); got != 3*time.Second || c.Since(begin) != got || c.Wall().Sub(begin) != got {
			t.Errorf("3 s took %v", got)
		}
		ctx, cancel := c.WithDeadline(t.Context(), begin.Add(4*time.Second))
		defer cancel()
		<-ctx.Done()
		if time.Since(begin) != 4*time.Second {
			t.Errorf("the deadline came after %v", time.Since(begin))
		}
	})
}

func BenchmarkMonotonic(b *testing.B) {
	for b.Loop() {
		Monotonic()
	}
}

func BenchmarkStamp(b *testing.B) {
	c := Real()
	for b.Loop() {
		Stamp(c)
	}
}
