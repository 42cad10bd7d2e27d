// Package fakeclock lets code that measures time run on a clock of the
// caller's choice: the real one, a [Fake] that moves only when it is told to,
// or a node's [View] of another clock, which can be wrong.
package fakeclock

import (
	"context"
	"time"
)

// Clock mirrors package time. All its methods are safe for concurrent use.
type Clock interface {
	// Now is for measuring: only differences of two readings count, and no
	// step of the wall clock changes them.
	Now() time.Time
	// Wall is the wall clock, which can be set. A lock that measures a lease
	// with it is broken as soon as somebody does.
	Wall() time.Time
	// Since is the time that has passed since a reading of Now.
	Since(t time.Time) time.Duration

	NewTimer(d time.Duration) *Timer
	// AfterFunc calls f in its own goroutine after d. The Timer's C is nil.
	AfterFunc(d time.Duration, f func()) *Timer
	// NewTicker panics if d is not positive, as time.NewTicker does.
	NewTicker(d time.Duration) *Ticker

	// Sleep waits for d or the end of ctx, whose error it then returns.
	Sleep(ctx context.Context, d time.Duration) error

	// WithTimeout and WithDeadline are context's, except that the deadline is
	// a moment of this clock.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	WithDeadline(ctx context.Context, t time.Time) (context.Context, context.CancelFunc)
}

// Timer is time.Timer on a Clock. After Stop or Reset no value of before is
// left in C.
type Timer struct {
	C <-chan time.Time
	timer
}

// Ticker is time.Ticker on a Clock: a slow reader misses ticks.
type Ticker struct {
	C <-chan time.Time
	ticker
}

type timer interface {
	// Stop says whether it prevented the timer from firing.
	Stop() bool
	// Reset says whether the timer had been active.
	Reset(d time.Duration) bool
}

type ticker interface {
	Stop()
	Reset(d time.Duration)
}

// Real is the machine's clock, and inside a synctest bubble the bubble's.
func Real() Clock { return realClock{} }

type realClock struct{}

func (realClock) Now() time.Time                  { return time.Now() }
func (realClock) Wall() time.Time                 { return time.Now().Round(0) }
func (realClock) Since(t time.Time) time.Duration { return time.Since(t) }

func (realClock) NewTimer(d time.Duration) *Timer {
	t := time.NewTimer(d)
	return &Timer{t.C, t}
}

func (realClock) AfterFunc(d time.Duration, f func()) *Timer {
	return &Timer{nil, time.AfterFunc(d, f)}
}

func (realClock) NewTicker(d time.Duration) *Ticker {
	t := time.NewTicker(d)
	return &Ticker{t.C, t}
}

func (c realClock) Sleep(ctx context.Context, d time.Duration) error { return sleep(ctx, c, d) }

func (realClock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

func (realClock) WithDeadline(ctx context.Context, t time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, t)
}

func sleep(ctx context.Context, c Clock, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stamper is a clock that gives evidence of its own: the clock of a simulated
// machine, whose stamps its simulated harness reads too.
type Stamper interface {
	Clock
	Stamp() int64
}

// Stamp is a reading of [Monotonic] for evidence, taken beside a clock; see
// [Reading].
func Stamp(c Clock) int64 {
	_, stamp := Reading(c)
	return stamp
}

// Reading is one moment twice: as the clock shows it, and as a reading of
// [Monotonic], for evidence. The stamp is 0 where that clock is not, or does
// not look at, the machine's own, because such a reading could not be compared
// with anything else the clock says. A [Stamper] gives its own.
//
// Counter-example to reading one after the other: the thread was preempted
// between them for 11 ms, the deadline of a lease was reckoned from the first,
// the promise that a judge saw from the second, and a correct lock seemed to
// give up 11 ms too early.
func Reading(c Clock) (now time.Time, stamp int64) {
	switch c := c.(type) {
	case Stamper:
		return c.Now(), c.Stamp()
	case *View:
		return c.reading()
	}
	if c != Real() || inBubble() {
		return c.Now(), 0
	}
	return together(c.Now)
}

// together brackets a reading between two stamps, of which the first counts.
// The narrowest of a few brackets is taken if each of them was preempted.
func together(read func() time.Time) (now time.Time, stamp int64) {
	const close, tries = int64(50 * time.Microsecond), 8
	narrowest := int64(-1)
	for range tries {
		before, ok := Monotonic()
		if !ok {
			return read(), 0
		}
		between := read()
		after, _ := Monotonic()
		if width := after - before; narrowest < 0 || width < narrowest {
			narrowest, now, stamp = width, between, before
		}
		if narrowest <= close {
			break
		}
	}
	return now, stamp
}
