package driver

import (
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// The functions below run in the reader of a connection.

// granted is the lease of an acquisition that was answered ok.
func (c *conn) granted(k *call, r *Reply, at lockspec.Stamp) (*lease, error) {
	if r.Lease == "" {
		return nil, c.node.broke(c, "acquire ok without a lease id")
	}
	l := c.newLease(k, r.Lease, r.LeaseMS, r.Token)
	if r.SentNS != 0 {
		l.sent = c.node.clock.check(c.node, "sent_ns of acquire", k.sent, r.SentNS, at)
	}
	l.left = r.LeftMS
	l.says = c.saysOf(r.Features, r.Bounds)
	c.know(l)
	return l, nil
}

func (c *conn) newLease(k *call, id string, granted Millis, token Token) *lease {
	l := &lease{
		conn: c, id: id, process: k.Process, key: k.Key, token: int64(token), asked: k.sent,
		lost: make(chan struct{}), says: c.node.Describe,
	}
	l.granted.Store(int64(granted))
	return l
}

// saysOf is the description of a handle that differs from the node's.
func (c *conn) saysOf(words []string, bounds *Bounds) func() lockspec.Description {
	if words == nil && bounds == nil {
		return c.node.Describe
	}
	says := c.node.Describe()
	if words != nil {
		own, capacity, err := features(words)
		if err != nil {
			c.node.broke(c, err.Error())
			return c.node.Describe
		}
		says.Features, says.Capacity = own, capacity
	}
	if bounds != nil {
		says.Bounds = bounds.spec()
	}
	return func() lockspec.Description { return says }
}

func (c *conn) know(l *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases[l.id] = l
}

// retire lets the lease be forgotten, after many more.
func (c *conn) retire(l *lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = append(c.over, l.id)
	if len(c.over) > retiredKept {
		delete(c.leases, c.over[0])
		c.over = c.over[1:]
	}
}

// happened takes an event.
func (c *conn) happened(e *Event, at lockspec.Stamp) {
	if e.Event == eventEntered || e.Event == eventLeft {
		c.sectioned(e)
		return
	}
	c.mu.Lock()
	l := c.leases[e.Lease]
	c.mu.Unlock()
	if l == nil {
		c.node.broke(c, fmt.Sprintf("event %s for lease %q, which no reply named", e.Event, e.Lease))
		return
	}
	switch e.Event {
	case eventLost:
		l.lose(e, at)
	case eventRenewed:
		l.renewed(e, at)
	case eventDoubt, eventSure:
		l.doubts.put(e.Event == eventDoubt, c.done)
	default:
		c.node.broke(c, fmt.Sprintf("event %q, which is none", e.Event))
	}
}

func (l *lease) lose(e *Event, at lockspec.Stamp) {
	select {
	case <-l.lost:
		return // said before
	default:
	}
	if e.DriverNS != 0 {
		l.lostAt = l.conn.node.clock.check(l.conn.node, "driver_ns of lost", l.asked, e.DriverNS, at)
	}
	l.cause = lossError(e.Reason)
	close(l.lost)
}

func (l *lease) renewed(e *Event, at lockspec.Stamp) {
	r := lockspec.Renewal{Lease: time.Duration(e.LeaseMS)}
	if e.SentNS != 0 {
		r.Sent = l.conn.node.clock.check(l.conn.node, "sent_ns of renewed", l.asked, e.SentNS, at)
	}
	l.renewals.put(r, l.conn.done)
}

// sectioned takes entered and left. What the driver wrote before left it wrote
// before the work had ended, and it is here, where lines have their order, that
// this is known.
//
// Counter-example to looking at what was answered once left is recorded: that
// goroutine had to wait, another recorded an answer that came after, and the
// next holder had been granted the key in between.
func (c *conn) sectioned(e *Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.section(e)
	switch {
	case k == nil:
		go c.node.note("%s of lease %q fits no open section, or more than one; let it carry \"request\", the section's id", e.Event, e.Lease)
	case e.Event == eventLeft && k.inside:
		select {
		case k.left <- c.answered:
		default:
		}
	case e.Event == eventEntered && !k.inside:
		k.inside = true
		l := c.newLease(k, e.Lease, e.LeaseMS, e.Token)
		l.says = c.saysOf(e.Features, nil)
		c.leases[e.Lease] = l
		k.Lease = l.id
		k.entered <- l
	}
}

// section is the section that an event belongs to: the one it names, the one of
// the lease, or the only one that can be meant. mu is held.
func (c *conn) section(e *Event) *call {
	if k := c.calls[e.Request]; k != nil && k.Op == opSection {
		return k
	}
	var fits *call
	for _, k := range c.calls {
		if k.Op != opSection || k.inside != (e.Event == eventLeft) || k.inside && k.Lease != e.Lease {
			continue
		}
		if fits != nil {
			return nil
		}
		fits = k
	}
	return fits
}
