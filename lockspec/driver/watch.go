package driver

import (
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// clock is what is known of a driver's clock. It is proven by stamps that lie
// inside their request, and one outside drops it for good: what a wrong clock
// says could excuse or convict anybody.
type clock struct {
	mu      sync.Mutex
	claimed bool
	dropped bool
}

func (c *clock) hello(n *Node, sent lockspec.Stamp, got *reply) {
	c.mu.Lock()
	c.claimed = got.Clock == clockMonotonic
	c.mu.Unlock()
	c.check(n, "now_ns of hello", sent, got.NowNS, got.at)
}

func (c *clock) proven() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claimed && !c.dropped
}

// check is the stamp if the clock is believed and the stamp possible, else 0.
func (c *clock) check(n *Node, what string, earliest lockspec.Stamp, stamp Nanos, latest lockspec.Stamp) lockspec.Stamp {
	c.mu.Lock()
	if !c.claimed || c.dropped {
		c.mu.Unlock()
		return 0
	}
	s := lockspec.Stamp(stamp)
	c.dropped = s < earliest || s > latest
	drop := c.dropped
	c.mu.Unlock()
	if drop {
		n.note("its clock is not believed from here on: %s", outside(what, earliest, s, latest))
		return 0
	}
	return s
}

func outside(what string, earliest, stamp, latest lockspec.Stamp) string {
	if stamp < earliest {
		return fmt.Sprintf("%s is %v before its request was sent", what, time.Duration(earliest-stamp))
	}
	return fmt.Sprintf("%s is %v after it arrived", what, time.Duration(stamp-latest))
}

// quiet is the time in which silence was injected, and says nothing.
type quiet struct {
	mu    sync.Mutex
	on    bool
	since lockspec.Stamp
	until lockspec.Stamp // of the last one that is over, settling included
}

func (q *quiet) begin(at lockspec.Stamp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.on {
		q.on, q.since = true, at
	}
}

func (q *quiet) end(at lockspec.Stamp, settle time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.on, q.until = false, at+lockspec.Stamp(settle)
}

// excuse is what is left of a silence beside the injected part.
func (q *quiet) excuse(from, to lockspec.Stamp) (lockspec.Stamp, lockspec.Stamp) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.on {
		to = min(to, q.since)
	}
	return max(from, q.until), to
}

// pinging pings the driver, one ping at a time, until it is gone. Every answer
// proves its clock again, and one that takes long is a stall.
func (n *Node) pinging(c *conn) {
	every := n.config.PingEvery
	if every == 0 {
		every = pingDefault
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	alive := n.stamp()
	for {
		select {
		case <-ticker.C:
		case <-c.done:
			return
		}
		k, err := c.send(Request{Op: opPing})
		if err != nil {
			return
		}
		got := <-k.replied
		if got.err != nil {
			return
		}
		n.clock.check(n, "now_ns of a ping", k.sent, got.NowNS, got.at)
		n.stalled(alive, k.sent, got.at)
		alive = got.at
	}
}

// stalled reports a ping that took long. The silence it belongs to began at the
// last sign of life at the earliest.
func (n *Node) stalled(alive, sent, answered lockspec.Stamp) {
	over := lockspec.Stamp(n.config.StallOver)
	if over <= 0 || n.config.OnStall == nil {
		return
	}
	if from, to := n.quiet.excuse(sent, answered); to-from <= over {
		return
	}
	from, to := n.quiet.excuse(alive, answered)
	n.config.OnStall(from, to)
}
