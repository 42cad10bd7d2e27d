package explore

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// fate is what becomes of a message that is struck.
type fate struct {
	step                           *step
	dropRequest, dropReply, resets bool
	delayRequest, delayReply       time.Duration
	again                          time.Duration // a second copy arrives so much later; 0: none

	open int // what may still happen: the caller waits, a copy travels
}

// message is one exchange with a server.
type message struct {
	n      *Node
	server int
	q      Request
	fate   *fate
	reply  Reply
	timer  *time.Timer // of its way there, then of its way back

	// Of a connection's:
	number   int64
	struckBy *interference
}

// Call sends a request to a server and waits for the reply, as long as ctx
// lives; then its error is ctx's, and what was sent travels on. A node that
// ended hears that it holds nothing.
func (n *Node) Call(ctx context.Context, server int, q Request) (Reply, error) {
	m := &message{n: n, server: server, q: q}
	defer m.settled()
	n.reach(placeOf(q.Op, 0), m)
	n.runs.pass(nil, n.gone)
	switch {
	case n.isGone():
		return gone, nil
	case ctx.Err() != nil:
		return Reply{}, ErrNotSent
	}
	m.takeFate()
	if i := m.interfered(); i != nil {
		return i.divert(ctx, m)
	}
	return m.exchange(ctx)
}

func (n *Node) isGone() bool {
	return n.ended.Load()
}

// gone is what a call answers once the node has ended.
var gone = Reply{Outcome: lockspec.NotHeld}

func (m *message) exchange(ctx context.Context) (Reply, error) {
	f := m.fate
	if f != nil && f.dropRequest {
		return m.silence(ctx)
	}
	d := m.n.w.delay()
	if f != nil {
		d += f.delayRequest
	}
	m.travels(d)
	if !m.wait(ctx, m.timer.C) {
		m.fly()
		go func() {
			select {
			case <-m.timer.C:
				m.arrive()
			case <-m.n.w.over:
			}
			m.settled()
		}()
		return m.lost(ctx)
	}
	if !m.through(ctx.Done(), m.n.gone) {
		m.fly()
		go func() {
			m.arrive()
			m.settled()
		}()
		return m.lost(ctx)
	}
	if !m.apply() {
		return m.silence(ctx)
	}
	return m.answer(ctx)
}

// copy lets a copy of the request travel that nobody waits for.
func (m *message) copy(after time.Duration) {
	m.fly()
	time.AfterFunc(after, func() {
		m.arrive()
		m.settled()
	})
}

// arrive delivers a request whose reply nobody waits for.
func (m *message) arrive() {
	if m.through(nil, nil) {
		c := *m // its reply is nobody's
		c.deliver()
	}
}

// through waits until a request can reach its server.
func (m *message) through(done, gone <-chan struct{}) bool {
	return m.n.links[m.server].out.pass(done, gone) && m.n.w.doors[m.server].pass(done, gone)
}

// apply delivers the request; false: nobody answers.
func (m *message) apply() bool {
	up := m.deliver()
	if up {
		if m.fate != nil && m.fate.again > 0 {
			m.copy(m.fate.again)
		}
		m.n.reach(placeOf(m.q.Op, 1), m)
	}
	return up
}

func (m *message) deliver() (up bool) {
	w := m.n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	m.tally()
	m.reply, up = w.service.Handle(m.server, m.q)
	return up
}

// tally counts a request that has arrived, where somebody counts.
func (m *message) tally() {
	if t := m.n.w.traffic; t != nil {
		t[m.server][traffic{m.q.Op, m.q.Key}]++
	}
}

// answer brings the reply back.
func (m *message) answer(ctx context.Context) (Reply, error) {
	d := m.n.w.delay()
	if f := m.fate; f != nil {
		if f.dropReply {
			return m.silence(ctx)
		}
		d += f.delayReply
	}
	m.travels(d)
	defer m.timer.Stop()
	if !m.wait(ctx, m.timer.C) || !m.n.links[m.server].in.pass(ctx.Done(), m.n.gone) {
		return m.lost(ctx)
	}
	m.n.reach(placeOf(m.q.Op, 2), m)
	if !m.n.runs.pass(nil, m.n.gone) {
		return gone, nil
	}
	m.heard()
	return m.reply, nil
}

// travels sets the timer of one way.
func (m *message) travels(d time.Duration) {
	if m.timer == nil {
		m.timer = time.NewTimer(d)
		return
	}
	m.timer.Reset(d)
}

// heard is what follows from a reply a little later.
func (m *message) heard() {
	w := m.n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case m.q.Op == Renew:
		m.n.flushSoon()
	case m.reply.Outcome == lockspec.Busy && m.n.queues.Load() > 0 && w.plan.pending > 0:
		time.AfterFunc(w.apart(w.draw(time.Millisecond, 30*time.Millisecond)), func() {
			if m.n.queues.Load() > 0 {
				m.n.reach(place{inQueue, 0}, nil)
			}
		})
	}
}

// wait is false where the caller gave up or ended first.
func (m *message) wait(ctx context.Context, c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
	case <-m.n.gone:
	}
	return false
}

// silence waits for a reply that does not come.
func (m *message) silence(ctx context.Context) (Reply, error) {
	if m.fate != nil && m.fate.resets {
		t := time.NewTimer(m.n.w.delay())
		defer t.Stop()
		if m.wait(ctx, t.C) {
			return Reply{}, ErrReset
		}
		return m.lost(ctx)
	}
	m.wait(ctx, nil)
	return m.lost(ctx)
}

// lost is the answer to a caller that waits no more. One whose node was
// stopped meanwhile hears it when it runs again.
func (m *message) lost(ctx context.Context) (Reply, error) {
	if m.n.isGone() || !m.n.runs.pass(nil, m.n.gone) {
		return gone, nil
	}
	return Reply{}, ctx.Err()
}

// takeFate gives the message what was decided for the next of its node.
func (m *message) takeFate() {
	w := m.n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if m.fate == nil && len(m.n.next) > 0 {
		m.take(m.n.next[0])
		m.n.next = m.n.next[1:]
	}
}

// take makes the fate the message's: from now on it is struck.
func (m *message) take(f *fate) {
	m.fate, f.open = f, 1
	f.step.begin(m.n.w)
}

// fly notes that something of the message goes on without its caller.
func (m *message) fly() {
	if m.fate != nil {
		m.n.w.mu.Lock()
		m.fate.open++
		m.n.w.mu.Unlock()
	}
}

// settled ends what take or fly began; the last one ends the fault.
func (m *message) settled() {
	if m == nil || m.fate == nil {
		return
	}
	f := m.fate
	w := m.n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.open--; f.open == 0 {
		f.step.end(w)
	}
}
