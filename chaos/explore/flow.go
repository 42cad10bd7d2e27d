package explore

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// packet is one write on its way.
type packet struct {
	bytes []byte
	extra time.Duration
	of    *message // the request that it answers
	last  bool     // the end of what is written
	at    time.Duration
}

// flow is one way of a connection.
type flow struct {
	c *connection

	mu      sync.Mutex
	onWay   []packet
	arrived []packet
	err     error
	more    chan struct{} // something is on its way
	news    chan struct{} // something has arrived
	latest  time.Duration // when the last on its way arrives
}

func newFlow(c *connection) *flow {
	return &flow{c: c, more: make(chan struct{}, 1), news: make(chan struct{}, 1)}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put sends a packet after all others.
func (f *flow) put(p packet) {
	d := f.c.n.w.delay() + p.extra
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		p.of.settled()
		return
	}
	f.latest = max(f.latest+1, f.c.n.w.now()+d)
	p.at = f.latest
	f.onWay = append(f.onWay, p)
	wake(f.more)
}

// putLater sends a packet when what strikes it is lifted; others go on.
func (f *flow) putLater(p packet, i *interference) {
	i.landed()
	go func() {
		if i.held(context.Background(), f.c.n) {
			f.put(p)
		} else {
			p.of.settled()
		}
	}()
}

// failed is why nothing more can be written.
func (f *flow) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// fail ends the flow: what has not arrived never does.
func (f *flow) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return
	}
	for i := range f.onWay {
		f.onWay[i].of.settled()
	}
	f.err, f.onWay = err, nil
	wake(f.news)
	wake(f.more)
}

// carry brings packets through the gates, until the flow or the world ends.
func (f *flow) carry(gates ...func(done, gone <-chan struct{}) bool) {
	w := f.c.n.w
	for {
		p, ok := f.next()
		if !ok {
			return
		}
		t := time.NewTimer(p.at - w.now())
		select {
		case <-t.C:
		case <-w.over:
			t.Stop()
			f.fail(net.ErrClosed)
			return
		}
		for _, pass := range gates {
			if !pass(nil, nil) {
				f.fail(net.ErrClosed)
				return
			}
		}
		f.arrive(p)
	}
}

func (f *flow) next() (packet, bool) {
	for {
		f.mu.Lock()
		if len(f.onWay) > 0 {
			p := f.onWay[0]
			f.onWay = f.onWay[1:]
			f.mu.Unlock()
			return p, true
		}
		over := f.err != nil
		f.mu.Unlock()
		if over {
			return packet{}, false
		}
		select {
		case <-f.more:
		case <-f.c.n.w.over:
			f.fail(net.ErrClosed)
			return packet{}, false
		}
	}
}

func (f *flow) arrive(p packet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.err != nil:
		p.of.settled()
	case p.last:
		f.err = io.EOF
	default:
		f.arrived = append(f.arrived, p)
	}
	wake(f.news)
}

// take reads what has arrived. The message is the request that was answered by
// what was read to its end.
func (f *flow) take(b []byte, until *deadline) (int, *message, error) {
	for {
		f.mu.Lock()
		if len(f.arrived) > 0 {
			p := &f.arrived[0]
			n := copy(b, p.bytes)
			p.bytes = p.bytes[n:]
			var m *message
			if len(p.bytes) == 0 {
				m = p.of
				f.arrived = f.arrived[1:]
			}
			f.mu.Unlock()
			return n, m, nil
		}
		err := f.err
		f.mu.Unlock()
		if err != nil {
			wake(f.news) // for who else reads
			return 0, nil, err
		}
		select {
		case <-f.news:
		case <-until.passed():
			return 0, nil, os.ErrDeadlineExceeded
		case <-f.c.n.gone:
			return 0, nil, errDied
		}
	}
}

// deadline is a net.Conn's.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	over  chan struct{}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	over := make(chan struct{})
	d.over, d.timer = over, nil
	if t.IsZero() {
		return
	}
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(over) })
		return
	}
	close(over)
}

// passed is closed when the present deadline passes.
func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over
}

func isOver(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
