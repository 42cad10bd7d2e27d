package fakeclock

import (
	"context"
	"sync"
	"time"
)

// event is a timer or ticker of a Fake or a View. Its fields are guarded by
// its owner's mutex.
type event struct {
	owner  scheduler
	when   time.Time
	seq    int64         // among events of one moment, the older is first
	period time.Duration // of a ticker
	c      chan time.Time
	f      func()
	active bool
	base   *Timer // View: the timer of the clock below
}

// scheduler is a clock that fires events.
type scheduler interface {
	start(e *event, d time.Duration)
	stop(e *event) bool
}

func newTimer(s scheduler, d time.Duration) *Timer {
	e := &event{owner: s, c: make(chan time.Time, 1)}
	s.start(e, d)
	return &Timer{e.c, e}
}

func newFunc(s scheduler, d time.Duration, f func()) *Timer {
	e := &event{owner: s, f: f}
	s.start(e, d)
	return &Timer{nil, e}
}

func newTicker(s scheduler, d time.Duration) *Ticker {
	if d <= 0 {
		panic("fakeclock: non-positive interval for NewTicker")
	}
	e := &event{owner: s, c: make(chan time.Time, 1), period: d}
	s.start(e, d)
	return &Ticker{e.c, tick{e}}
}

func (e *event) Stop() bool { return e.owner.stop(e) }

func (e *event) Reset(d time.Duration) bool {
	was := e.owner.stop(e)
	e.owner.start(e, d)
	return was
}

type tick struct{ e *event }

func (t tick) Stop() { t.e.owner.stop(t.e) }

func (t tick) Reset(d time.Duration) {
	if d <= 0 {
		panic("fakeclock: non-positive interval for Ticker.Reset")
	}
	t.e.owner.stop(t.e)
	t.e.period = d
	t.e.owner.start(t.e, d)
}

// send puts a moment in the channel, unless one is in it that nobody took.
func (e *event) send(now time.Time) {
	select {
	case e.c <- now:
	default:
	}
}

// drain takes a moment out that nobody took.
func (e *event) drain() {
	select {
	case <-e.c:
	default:
	}
}

// deadlineCtx ends with its parent or when end is called.
type deadlineCtx struct {
	context.Context
	deadline time.Time
	done     chan struct{}

	mu    sync.Mutex
	err   error
	after map[*func()]bool
}

func withDeadline(parent context.Context, c Clock, t time.Time, d time.Duration) (context.Context, context.CancelFunc) {
	if other, ok := parent.Deadline(); ok && other.Before(t) {
		return context.WithCancel(parent)
	}
	dc := &deadlineCtx{Context: parent, deadline: t, done: make(chan struct{})}
	if err := parent.Err(); err != nil {
		dc.end(err)
	}
	unlink := context.AfterFunc(parent, func() { dc.end(parent.Err()) })
	timer := c.AfterFunc(d, func() { dc.end(context.DeadlineExceeded) })
	child, cancel := context.WithCancel(dc)
	return child, func() {
		cancel()
		unlink()
		timer.Stop()
	}
}

func (c *deadlineCtx) Deadline() (time.Time, bool) { return c.deadline, true }
func (c *deadlineCtx) Done() <-chan struct{}       { return c.done }

func (c *deadlineCtx) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// AfterFunc spares package context a goroutine for each child.
func (c *deadlineCtx) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = make(map[*func()]bool)
	}
	c.after[&f] = true
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		was := c.after[&f]
		delete(c.after, &f)
		return was
	}
}

func (c *deadlineCtx) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	close(c.done)
	after := c.after
	c.after = nil
	c.mu.Unlock()
	for f := range after {
		(*f)()
	}
}
