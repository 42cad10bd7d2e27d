package fakeclock

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// View is what one node sees of another clock, the base: it can run fast or
// slow, its wall clock can be off, and the node can stand still. A view begins
// with its base's time and rate. It is safe for concurrent use.
type View struct {
	base Clock

	mu      sync.Mutex
	at      time.Time // when rate last changed, on the base …
	showed  time.Time // … and what the view showed then
	rate    float64   // 0 while suspended
	awake   float64   // rate when not suspended
	paused  bool
	shift   time.Duration
	pending map[*event]bool
	started int64 // events so far
}

// NewView is a view of base that agrees with it.
func NewView(base Clock) *View {
	now := base.Now()
	return &View{base: base, at: now, showed: now, rate: 1, awake: 1, pending: make(map[*event]bool)}
}

// SetRate makes the view run that much faster than its base (1: as fast).
// It panics unless rate is positive.
func (v *View) SetRate(rate float64) {
	if !(rate > 0) {
		panic("fakeclock: rate is not positive")
	}
	v.change(func() {
		v.awake = rate
		if v.rate != 0 {
			v.rate = rate
		}
	})
}

// Shift steps the wall clock, as an operator or a time daemon does. Nothing
// that is measured changes.
func (v *View) Shift(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shift += d
}

// Pause stops the node, as SIGSTOP does a process: its clock goes on and its
// timers do not fire. What became due fires at Resume. Code of the node that
// needs no timer to run is not stopped; that is its world's to do.
func (v *View) Pause() { v.change(func() { v.paused = true }) }

// Suspend stops the node's machine: its clock stands still too.
func (v *View) Suspend() { v.change(func() { v.paused, v.rate = true, 0 }) }

// Resume ends Pause and Suspend.
func (v *View) Resume() { v.change(func() { v.paused, v.rate = false, v.awake }) }

// change re-reckons every timer after a change of how time runs.
func (v *View) change(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.base.Now()
	v.showed, v.at = v.seen(now), now
	f()
	for i, e := range v.inOrder() {
		v.arm(e)
		if i > 0 && !v.paused && !v.seen(now).Before(e.when) {
			e.base.Reset(time.Duration(i)) // what is overdue fires in order, not all at one moment
		}
	}
}

// inOrder is every event that is to come, the earliest first.
func (v *View) inOrder() []*event {
	events := make([]*event, 0, len(v.pending))
	for e := range v.pending {
		events = append(events, e)
	}
	slices.SortFunc(events, func(a, b *event) int {
		return cmp.Or(a.when.Compare(b.when), cmp.Compare(a.seq, b.seq))
	})
	return events
}

// seen is what the view shows at a moment of the base.
func (v *View) seen(now time.Time) time.Time {
	passed := now.Sub(v.at)
	if v.rate != 1 {
		passed = time.Duration(float64(passed) * v.rate)
	}
	return v.showed.Add(passed)
}

// Now is what the node's clock shows.
func (v *View) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen(v.base.Now())
}

func (v *View) reading() (time.Time, int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, stamp := Reading(v.base)
	return v.seen(now), stamp
}

// Wall is the base's wall clock, plus every Shift, plus what the view's rate
// has made of it.
func (v *View) Wall() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.base.Now()
	return v.base.Wall().Add(v.shift + v.seen(now).Sub(now))
}

// Since is Clock's.
func (v *View) Since(t time.Time) time.Duration { return v.Now().Sub(t) }

// NewTimer is Clock's.
func (v *View) NewTimer(d time.Duration) *Timer { return newTimer(v, d) }

// AfterFunc is Clock's.
func (v *View) AfterFunc(d time.Duration, f func()) *Timer { return newFunc(v, d, f) }

// NewTicker is Clock's.
func (v *View) NewTicker(d time.Duration) *Ticker { return newTicker(v, d) }

// Sleep is Clock's.
func (v *View) Sleep(ctx context.Context, d time.Duration) error { return sleep(ctx, v, d) }

// WithTimeout is Clock's.
func (v *View) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return withDeadline(ctx, v, v.Now().Add(d), d)
}

// WithDeadline is Clock's.
func (v *View) WithDeadline(ctx context.Context, t time.Time) (context.Context, context.CancelFunc) {
	return withDeadline(ctx, v, t, t.Sub(v.Now()))
}

func (v *View) start(e *event, d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e.when, e.active = v.seen(v.base.Now()).Add(d), true
	v.started++
	e.seq = v.started
	v.pending[e] = true
	v.arm(e)
}

func (v *View) stop(e *event) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	e.drain()
	return v.remove(e)
}

func (v *View) remove(e *event) bool {
	was := e.active
	e.active = false
	delete(v.pending, e)
	if e.base != nil {
		e.base.Stop()
	}
	return was
}

// arm sets the base's timer for an event, none while the node stands still.
func (v *View) arm(e *event) {
	if e.base != nil {
		e.base.Stop()
	}
	if v.paused {
		return
	}
	wait := e.when.Sub(v.seen(v.base.Now()))
	if v.rate != 1 {
		wait = time.Duration(math.Ceil(float64(wait) / v.rate))
	}
	e.base = v.base.AfterFunc(wait, func() { v.due(e) })
}

// due is the base's timer's, in a goroutine of its own.
func (v *View) due(e *event) {
	v.mu.Lock()
	if !e.active || v.paused {
		v.mu.Unlock()
		return
	}
	now := v.seen(v.base.Now())
	if now.Before(e.when) { // set anew meanwhile, or rounding
		v.arm(e)
		v.mu.Unlock()
		return
	}
	if e.period > 0 {
		e.when = e.when.Add(e.period)
		v.arm(e)
	} else {
		v.remove(e)
	}
	if e.c != nil {
		e.send(now)
	}
	v.mu.Unlock()
	if e.f != nil {
		e.f()
	}
}
