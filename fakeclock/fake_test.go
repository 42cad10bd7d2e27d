package fakeclock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var epoch = time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)

func advance(t testing.TB, f *Fake, d time.Duration) {
	t.Helper()
	if err := f.Advance(d); err != nil {
		t.Fatal(err)
	}
	if err := f.Settle(bounded(t)); err != nil {
		t.Fatal(err)
	}
}

// bounded is a context that keeps a broken test from hanging.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func fired(c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestFakeRefusesToPassAnEvent(t *testing.T) {
	f := NewFake(epoch)
	timer := f.NewTimer(time.Second)
	err := f.Advance(time.Second + 1)
	if err == nil || !strings.Contains(err.Error(), "due in 1s") {
		t.Fatalf("passed an event: %v", err)
	}
	if !f.Now().Equal(epoch) || fired(timer.C) {
		t.Fatal("a refused advance moved the clock")
	}
	if f.Advance(-1) == nil {
		t.Fatal("went back")
	}
	if d, ok := f.Next(); !ok || d != time.Second {
		t.Fatalf("next: %v %v", d, ok)
	}
	advance(t, f, time.Second)
	if !fired(timer.C) || f.Since(epoch) != time.Second {
		t.Fatal("did not fire on time")
	}
	if _, ok := f.Next(); ok {
		t.Fatal("an event is left")
	}
}

func TestFakeFiresWhatIsDueTogether(t *testing.T) {
	f := NewFake(epoch)
	var mu sync.Mutex
	var ran []int
	for i := range 3 {
		f.AfterFunc(time.Second, func() {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, i)
		})
	}
	f.AfterFunc(0, func() {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, -1)
	})
	if err := f.Settle(bounded(t)); err != nil {
		t.Fatal(err)
	}
	advance(t, f, time.Second)
	slices.Sort(ran)
	if !slices.Equal(ran, []int{-1, 0, 1, 2}) {
		t.Fatalf("ran %v", ran)
	}
}

// TestTimers runs the same script on every clock that is not the machine's.
func TestTimers(t *testing.T) {
	base := func() (Clock, *Fake) { f := NewFake(epoch); return f, f }
	view := func() (Clock, *Fake) { f := NewFake(epoch); return NewView(f), f }
	for name, clock := range map[string]func() (Clock, *Fake){"fake": base, "view": view} {
		t.Run(name, func(t *testing.T) {
			c, f := clock()
			timer := c.NewTimer(2 * time.Second)
			ticker := c.NewTicker(time.Second)
			never := c.AfterFunc(time.Second, func() { t.Error("a stopped function ran") })
			if !never.Stop() || never.Stop() {
				t.Error("Stop does not say whether it prevented anything")
			}
			advance(t, f, time.Second)
			if !fired(ticker.C) || fired(timer.C) {
				t.Error("after 1 s: the ticker alone should have fired")
			}
			if !timer.Reset(3 * time.Second) {
				t.Error("Reset of an active timer")
			}
			advance(t, f, time.Second)
			advance(t, f, time.Second)
			if !fired(ticker.C) || fired(ticker.C) {
				t.Error("a slow reader should miss ticks")
			}
			ticker.Reset(10 * time.Second)
			advance(t, f, time.Second)
			if timer.Stop() {
				t.Error("Stop of a fired timer")
			}
			if fired(timer.C) {
				t.Error("a stopped timer left a value behind")
			}
			ticker.Stop()
			if d, ok := f.Next(); ok {
				t.Errorf("an event is left, in %v", d)
			}
		})
	}
}

func TestTickersRefuseNoInterval(t *testing.T) {
	f := NewFake(epoch)
	for name, f := range map[string]func(){
		"new":   func() { f.NewTicker(0) },
		"reset": func() { f.NewTicker(1).Reset(0) },
		"rate":  func() { NewView(f).SetRate(0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestContexts(t *testing.T) {
	f := NewFake(epoch)
	ctx, cancel := f.WithTimeout(context.Background(), time.Second)
	defer cancel()
	child, cancelChild := context.WithCancel(context.WithValue(ctx, t, 1))
	defer cancelChild()
	if at, ok := child.Deadline(); !ok || !at.Equal(epoch.Add(time.Second)) {
		t.Errorf("deadline %v %v", at, ok)
	}
	advance(t, f, time.Second)
	for _, c := range []context.Context{ctx, child} {
		<-c.Done()
		if c.Err() != context.DeadlineExceeded || context.Cause(c) != context.DeadlineExceeded {
			t.Errorf("err %v, cause %v", c.Err(), context.Cause(c))
		}
	}
}

func TestContextEndsEarly(t *testing.T) {
	f := NewFake(epoch)
	why := errors.New("why")
	parent, end := context.WithCancelCause(context.Background())
	ctx, cancel := f.WithDeadline(parent, epoch.Add(time.Hour))
	defer cancel()
	own, cancelOwn := f.WithTimeout(parent, time.Hour)
	nearer, cancelNearer := f.WithTimeout(ctx, 2*time.Hour)
	defer cancelNearer()
	cancelOwn()
	if own.Err() != context.Canceled {
		t.Errorf("cancelled: %v", own.Err())
	}
	end(why)
	for _, c := range []context.Context{ctx, nearer} {
		<-c.Done()
		if c.Err() != context.Canceled || context.Cause(c) != why {
			t.Errorf("parent ended: err %v, cause %v", c.Err(), context.Cause(c))
		}
	}
	if dead, cancel := f.WithTimeout(parent, time.Hour); dead.Err() == nil {
		t.Error("a context of a dead parent lives")
	} else {
		cancel()
	}
	cancel()
	if _, ok := f.Next(); ok {
		t.Error("a cancelled context left its timer")
	}
}

func TestSleep(t *testing.T) {
	f := NewFake(epoch)
	slept := make(chan error)
	go func() { slept <- f.Sleep(context.Background(), time.Minute) }()
	if err := f.Await(bounded(t), 1); err != nil {
		t.Fatal(err)
	}
	advance(t, f, time.Minute)
	if err := <-slept; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { slept <- f.Sleep(ctx, time.Minute) }()
	if err := f.Await(bounded(t), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-slept; err != context.Canceled {
		t.Errorf("cancelled sleep: %v", err)
	}
	if err := f.Sleep(ctx, 0); err != context.Canceled {
		t.Errorf("sleep in a dead context: %v", err)
	}
	if err := f.Await(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("await in a dead context: %v", err)
	}
}

func TestShiftMovesTheWallClockOnly(t *testing.T) {
	f := NewFake(epoch)
	v := NewView(f)
	v.Shift(-time.Hour)
	f.Shift(time.Minute)
	for name, c := range map[string]struct {
		Clock
		wall time.Time
	}{"fake": {f, epoch.Add(time.Minute)}, "view": {v, epoch.Add(time.Minute - time.Hour)}} {
		if !c.Now().Equal(epoch) || c.Since(epoch) != 0 {
			t.Errorf("%s: a step of the wall clock was measured", name)
		}
		if !c.Wall().Equal(c.wall) {
			t.Errorf("%s: wall %v, want %v", name, c.Wall(), c.wall)
		}
	}
}
