package explore

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// Streamer is the power of a Service to be spoken to in bytes, by locks whose
// protocol is written for a net.Conn.
type Streamer interface {
	// Serve answers a connection until it ends, in a goroutine of its own.
	Serve(server int, c net.Conn)
	// Asked is what the client asks with these bytes, so that faults can be
	// placed; without Op: nothing that a tenure does. The number tells requests
	// of a connection apart.
	Asked(b []byte) (q Request, number int64)
	// Answered is which request the server answers with these bytes, 0 for the
	// oldest, and whether it refuses an acquisition.
	Answered(b []byte) (number int64, busy bool)
}

// Dial is a connection of the node to a server, as TCP makes one: what is
// written arrives in order, each write a message as late as messages are; a
// link that is cut holds everything, the end included, and lets it through
// when it heals; nothing is lost unless the connection breaks. A request or a
// reply that a fault drops breaks it, because TCP would have brought it. No
// write arrives twice or overtakes another.
func (n *Node) Dial(ctx context.Context, server int) (net.Conn, error) {
	s, ok := n.w.service.(Streamer)
	if !ok {
		return nil, fmt.Errorf("explore: the service of this world cannot be spoken to in bytes")
	}
	t := time.NewTimer(n.w.delay() + n.w.delay()) // SYN and its answer
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-n.gone:
	}
	n.runs.pass(nil, n.gone)
	switch {
	case n.isGone():
		return nil, errDied
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	c := &connection{n: n, server: server, speaks: s}
	c.there, c.back = newFlow(c), newFlow(c)
	go c.there.carry(n.links[server].out.pass, n.w.doors[server].pass)
	go c.back.carry(n.links[server].in.pass)
	go s.Serve(server, &end{c: c, reads: c.there, writes: c.back, far: true})
	return &end{c: c, reads: c.back, writes: c.there}, nil
}

// connection is both ways between a node and a server.
type connection struct {
	n           *Node
	server      int
	speaks      Streamer
	there, back *flow

	mu   sync.Mutex
	open []*message // asked and not answered
}

// asked is a request that is about to leave: what the plan has for it there
// strikes.
func (c *connection) asked(b []byte) *message {
	m := &message{n: c.n, server: c.server}
	m.q, m.number = c.speaks.Asked(b)
	if m.q.Op == "" {
		return m
	}
	c.n.reach(placeOf(m.q.Op, 0), m)
	m.takeFate()
	m.struckBy = m.interfered()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, m)
	return m
}

// answers is the request that the server answers now: it has been applied.
func (c *connection) answers(b []byte) *message {
	number, busy := c.speaks.Answered(b)
	m := c.take(number)
	if m == nil {
		return nil
	}
	if busy {
		m.reply.Outcome = lockspec.Busy
	}
	c.n.w.mu.Lock()
	m.tally()
	c.n.w.mu.Unlock()
	c.n.reach(placeOf(m.q.Op, 1), m)
	return m
}

func (c *connection) take(number int64) *message {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, m := range c.open {
		if number == 0 || m.number == number {
			c.open = slices.Delete(c.open, i, i+1)
			return m
		}
	}
	return nil
}

// abandon ends the faults of what was asked and will not be answered.
func (c *connection) abandon() {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for _, m := range open {
		m.settled()
	}
}

// end is one side of a connection.
type end struct {
	c             *connection
	reads, writes *flow
	far           bool // the server's
	rd, wd        deadline
}

// Read implements net.Conn.
func (e *end) Read(b []byte) (int, error) {
	n, m, err := e.reads.take(b, &e.rd)
	if e.far {
		return n, err
	}
	if m != nil {
		e.c.n.reach(placeOf(m.q.Op, 2), m)
		m.heard()
		m.settled()
	}
	if !e.c.n.runs.pass(nil, e.c.n.gone) {
		return 0, errDied
	}
	return n, err
}

// Write implements net.Conn. It never waits: a socket's buffer is large.
func (e *end) Write(b []byte) (int, error) {
	if !e.far {
		e.c.n.runs.pass(nil, e.c.n.gone)
		if e.c.n.isGone() {
			return 0, errDied
		}
	}
	if isOver(e.wd.passed()) {
		return 0, os.ErrDeadlineExceeded
	}
	if e.far {
		e.answer(b)
	} else {
		e.ask(b)
	}
	return len(b), e.writes.failed()
}

// ask sends a request of the node.
func (e *end) ask(b []byte) {
	m := e.c.asked(b)
	p := packet{bytes: append([]byte(nil), b...)}
	if m.fate != nil {
		p.extra = m.fate.delayRequest
	}
	i := m.struckBy
	switch {
	case m.fate != nil && m.fate.dropRequest:
		e.c.reset()
	case i != nil && i.what == contract.DropRequest:
		i.landed()
	case i != nil && i.what == contract.HoldRequest:
		e.writes.putLater(p, i)
	default:
		e.writes.put(p)
	}
}

// answer sends a reply of the server.
func (e *end) answer(b []byte) {
	m := e.c.answers(b)
	p := packet{bytes: append([]byte(nil), b...), of: m}
	if m == nil {
		e.writes.put(p)
		return
	}
	if m.fate != nil {
		p.extra = m.fate.delayReply
	}
	i := m.struckBy
	switch {
	case m.fate != nil && m.fate.dropReply:
		e.c.reset()
		m.settled()
	case i != nil && i.what == contract.DropReply:
		i.landed()
		m.settled()
	case i != nil && i.what == contract.HoldReply:
		e.writes.putLater(p, i)
	default:
		e.writes.put(p)
	}
}

// reset breaks the connection: each side hears of it when a message would
// arrive.
func (c *connection) reset() {
	for _, f := range []*flow{c.there, c.back} {
		time.AfterFunc(c.n.w.delay(), func() { f.fail(ErrReset) })
	}
	c.abandon()
}

// Close implements net.Conn: what was written arrives, then the end does.
func (e *end) Close() error {
	e.writes.put(packet{last: true})
	e.reads.fail(net.ErrClosed)
	e.c.abandon()
	return nil
}

func (e *end) LocalAddr() net.Addr  { return address(e.c.n.Name) }
func (e *end) RemoteAddr() net.Addr { return address(fmt.Sprintf("server%d", e.c.server)) }

// SetDeadline implements net.Conn.
func (e *end) SetDeadline(t time.Time) error {
	e.wd.set(t)
	return e.SetReadDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (e *end) SetReadDeadline(t time.Time) error {
	e.rd.set(t)
	wake(e.reads.news)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (e *end) SetWriteDeadline(t time.Time) error { e.wd.set(t); return nil }

type address string

func (address) Network() string  { return "virtual" }
func (a address) String() string { return string(a) }
