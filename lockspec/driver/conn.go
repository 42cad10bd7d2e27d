package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// conn is the harness's end of the two streams of one incarnation of a driver.
// One goroutine writes, one reads; what the reader finds takes effect in the
// order of the stream: a loss closes its channel before any later reply reaches
// the one who waits for it.
type conn struct {
	node *Node
	in   io.Writer
	done chan struct{} // closed when the driver is gone

	mu     sync.Mutex
	queue  [][]byte // requests that are not written yet; never blocks who sends
	more   chan struct{}
	lastID int64
	calls  map[int64]*call
	leases map[string]*lease
	over   []string // ids of leases that were released, oldest first
	gone   error    // why the driver is gone

	answered lockspec.Stamp // when the latest request that has its reply was sent; 0 where stamps are no readings of the machine's clock
}

// call is a request without a reply.
type call struct {
	Request
	sent    lockspec.Stamp
	replied chan reply          // takes one
	waiting bool                // somebody does; under conn.mu
	late    func(lockspec.Late) // is told of a reply that nobody waits for; nil: it is dealt with here

	entered chan *lease // of a section; each takes one
	left    chan lockspec.Stamp
	inside  bool // entered came
}

// reply is how a call ended.
type reply struct {
	Reply
	lease *lease // that an acquisition was granted
	at    lockspec.Stamp
	err   error // there was no reply, or none that the protocol allows
}

func newConn(n *Node, in io.Writer) *conn {
	return &conn{node: n, in: in, done: make(chan struct{}), more: make(chan struct{}, 1), calls: map[int64]*call{}, leases: map[string]*lease{}}
}

// send queues a request.
func (c *conn) send(q Request) (*call, error) {
	k := &call{Request: q, replied: make(chan reply, 1), waiting: true}
	if q.Op == opSection {
		k.entered, k.left = make(chan *lease, 1), make(chan lockspec.Stamp, 1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return nil, harmless{c.gone}
	}
	c.lastID++
	k.ID = c.lastID
	line, err := json.Marshal(k.Request)
	if err != nil {
		return nil, harmless{err}
	}
	k.sent = c.node.stamp()
	c.calls[k.ID] = k
	c.queue = append(c.queue, append(line, '\n'))
	select {
	case c.more <- struct{}{}:
	default:
	}
	return k, nil
}

// write writes what is queued until the driver is gone.
func (c *conn) write() {
	for {
		select {
		case <-c.more:
		case <-c.done:
			return
		}
		c.mu.Lock()
		batch := bytes.Join(c.queue, nil)
		c.queue = nil
		c.mu.Unlock()
		if _, err := c.in.Write(batch); err != nil {
			// Its last replies may still be on their way.
			time.AfterFunc(drainLimit, func() { c.fail(fmt.Errorf("it does not read its stdin: %w", err)) })
			return
		}
	}
}

// read takes lines until there are no more, and then the driver is gone.
func (c *conn) read(out io.Reader) {
	incoming := newLines(out)
	for {
		line, err := incoming.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			c.fail(errors.New("it closed its stdout"))
			return
		case err != nil:
			c.node.broke(c, err.Error())
			c.fail(err)
			return
		case incoming.partial && c.node.isGreeted():
			continue // it was ended in the middle of a line
		}
		c.take(line)
	}
}

// take handles one line of the driver.
func (c *conn) take(line []byte) {
	at := c.node.stamp()
	r, e, err := decode(line)
	if err != nil {
		err = c.node.broke(c, err.Error())
	}
	switch {
	case r == nil && e == nil:
	case e != nil:
		c.happened(e, at)
	default:
		c.reply(r, at, err)
	}
}

// decode reads a line that a driver wrote: a reply or an event. With an error
// there is a reply if its id, at least, could be read.
func decode(line []byte) (*Reply, *Event, error) {
	var kind struct {
		ID    *int64  `json:"id"`
		Event *string `json:"event"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		if !json.Valid(line) {
			return nil, nil, fmt.Errorf("a line that is no JSON: %q; stdout belongs to the protocol, prints go to stderr", clip(line))
		}
		return nil, nil, fmt.Errorf("a line that is no reply and no event: %s", clip(line))
	}
	switch {
	case kind.Event != nil:
		e := new(Event)
		if err := json.Unmarshal(line, e); err != nil {
			return nil, nil, fmt.Errorf("event %s: %w", clip(line), err)
		}
		return nil, e, nil
	case kind.ID != nil:
		r := new(Reply)
		if err := json.Unmarshal(line, r); err != nil {
			return &Reply{ID: *kind.ID}, nil, fmt.Errorf("reply %s: %w", clip(line), err)
		}
		return r, nil, nil
	}
	return nil, nil, fmt.Errorf("a line that is no reply and no event: %s", clip(line))
}

// reply ends the call that r answers; unread says why r is only an id.
func (c *conn) reply(r *Reply, at lockspec.Stamp, unread error) {
	c.mu.Lock()
	k := c.calls[r.ID]
	delete(c.calls, r.ID)
	last := c.lastID
	if _, ok := fakeclock.Monotonic(); ok && k != nil {
		c.answered = max(c.answered, k.sent)
	}
	c.mu.Unlock()
	switch {
	case k == nil && r.ID >= 1 && r.ID <= last:
		c.node.broke(c, fmt.Sprintf("a second reply to request %d", r.ID))
		return
	case k == nil:
		c.node.broke(c, fmt.Sprintf("a reply to request %d, which was not sent", r.ID))
		return
	}
	got := reply{Reply: *r, at: at, err: unread}
	if unread == nil && !r.Outcome.Known() {
		got.err = c.node.broke(c, fmt.Sprintf("%q is no outcome (reply to %s)", r.Outcome, k.Op))
	} else if k.Op == opAcquire && r.Outcome == lockspec.OK {
		got.lease, got.err = c.granted(k, r, at)
	}
	if !c.hand(k, got) {
		c.late(k, got)
	}
}

// hand gives the reply to the one who waits for it; false if nobody does.
func (c *conn) hand(k *call, got reply) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.waiting {
		k.replied <- got
	}
	return k.waiting
}

// abandon stops waiting for a reply, unless it is there.
func (c *conn) abandon(k *call) (got reply, there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case got = <-k.replied:
		return got, true
	default:
		k.waiting = false
		return reply{}, false
	}
}

// late deals with a reply that came after its caller gave up: what it grants is
// released at once.
func (c *conn) late(k *call, got reply) {
	if got.err != nil || k.Op == opPing || k.Op == opCancel {
		return
	}
	if k.late != nil {
		k.late(got.late(k.Op))
		return
	}
	c.node.late(k.Request, got)
	if got.lease == nil {
		return
	}
	// The key is for the report only.
	release, err := c.send(Request{Op: opRelease, Process: k.Process, Lease: got.lease.id, Key: k.Key, KeyB64: k.KeyB64})
	if err != nil {
		return
	}
	if got, there := c.abandon(release); there {
		c.late(release, got)
	}
}

// fail ends every call: the driver is gone.
func (c *conn) fail(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return
	}
	c.gone = fmt.Errorf("%w: %w", lockspec.ErrUnavailable, c.node.goneBy(why))
	for _, k := range c.calls {
		if k.waiting {
			k.replied <- reply{err: c.gone}
		}
	}
	clear(c.calls)
	c.queue = nil
	close(c.done)
}
