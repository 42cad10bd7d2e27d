package fakeclock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Fake is a clock that stands still until Advance moves it. It is safe for
// concurrent use.
//
// The zero value is not usable; make one with NewFake.
type Fake struct {
	mu      sync.Mutex
	now     time.Time
	shift   time.Duration // of the wall clock
	seq     int64
	events  []*event // by when, then seq
	running int      // functions of AfterFunc
	changed chan struct{}
}

// NewFake is a clock that shows start.
func NewFake(start time.Time) *Fake {
	return &Fake{now: start.Round(0), changed: make(chan struct{})}
}

// Advance moves the clock by d and fires what is due at that very moment, in
// the order of creation. Functions of AfterFunc run in goroutines of their
// own; Settle waits for them.
//
// It refuses to move past an event: what that event makes the code under test
// do would race with what comes after. Advance to it, let the code react, then
// go on.
func (f *Fake) Advance(d time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d < 0 {
		return fmt.Errorf("fakeclock: advance by %v", d)
	}
	to := f.now.Add(d)
	if len(f.events) > 0 && f.events[0].when.Before(to) {
		return fmt.Errorf("fakeclock: advance by %v would pass an event that is due in %v", d, f.events[0].when.Sub(f.now))
	}
	f.now = to
	for len(f.events) > 0 && f.events[0].when.Equal(to) {
		e := f.events[0]
		f.remove(e)
		f.fire(e)
	}
	return nil
}

// Next is how far the next event is; ok is false if there is none.
func (f *Fake) Next() (d time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) == 0 {
		return 0, false
	}
	return f.events[0].when.Sub(f.now), true
}

// Await waits until at least n timers and tickers are set: until the code
// under test waits for the clock.
func (f *Fake) Await(ctx context.Context, n int) error {
	return f.until(ctx, func() bool { return len(f.events) >= n })
}

// Settle waits until every function of AfterFunc that was started has returned.
func (f *Fake) Settle(ctx context.Context) error {
	return f.until(ctx, func() bool { return f.running == 0 })
}

// Shift steps the wall clock. Nothing that is measured changes.
func (f *Fake) Shift(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shift += d
}

func (f *Fake) until(ctx context.Context, ok func() bool) error {
	for {
		f.mu.Lock()
		done, changed := ok(), f.changed
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("fakeclock: %w", context.Cause(ctx))
		}
	}
}

func (f *Fake) note() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Now is the moment the clock shows.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Wall is Now plus every Shift.
func (f *Fake) Wall() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.Add(f.shift)
}

// Since is what the clock was advanced by since it showed t.
func (f *Fake) Since(t time.Time) time.Duration { return f.Now().Sub(t) }

// NewTimer is Clock's.
func (f *Fake) NewTimer(d time.Duration) *Timer { return newTimer(f, d) }

// AfterFunc is Clock's.
func (f *Fake) AfterFunc(d time.Duration, fn func()) *Timer { return newFunc(f, d, fn) }

// NewTicker is Clock's.
func (f *Fake) NewTicker(d time.Duration) *Ticker { return newTicker(f, d) }

// Sleep is Clock's.
func (f *Fake) Sleep(ctx context.Context, d time.Duration) error { return sleep(ctx, f, d) }

// WithTimeout is Clock's.
func (f *Fake) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return withDeadline(ctx, f, f.Now().Add(d), d)
}

// WithDeadline is Clock's.
func (f *Fake) WithDeadline(ctx context.Context, t time.Time) (context.Context, context.CancelFunc) {
	return withDeadline(ctx, f, t, t.Sub(f.Now()))
}

func (f *Fake) start(e *event, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.when = f.now.Add(max(d, 0))
	if d <= 0 {
		f.fire(e)
		return
	}
	f.insert(e)
}

func (f *Fake) stop(e *event) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.drain()
	return f.remove(e)
}

func (f *Fake) insert(e *event) {
	f.seq++
	e.seq, e.active = f.seq, true
	i, _ := slices.BinarySearchFunc(f.events, e, func(a, b *event) int {
		if c := a.when.Compare(b.when); c != 0 {
			return c
		}
		return int(a.seq - b.seq)
	})
	f.events = slices.Insert(f.events, i, e)
	f.note()
}

func (f *Fake) remove(e *event) bool {
	if !e.active {
		return false
	}
	e.active = false
	i := slices.Index(f.events, e)
	f.events = slices.Delete(f.events, i, i+1)
	f.note()
	return true
}

func (f *Fake) fire(e *event) {
	switch {
	case e.f != nil:
		f.running++
		go func() {
			defer f.ran()
			e.f()
		}()
	default:
		e.send(f.now)
	}
	if e.period > 0 {
		e.when = e.when.Add(e.period)
		f.insert(e)
	}
}

func (f *Fake) ran() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	f.note()
}
