package toxiproxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// gate is one direction of every connection of a proxy. What comes to a closed
// one, bytes or the end of the connection, waits until it opens.
//
// It is put in the way once, before the first connection, and never taken out:
// to add and remove a toxic of toxiproxy's while connections are open races
// with new ones, can hang where a link is stuck, and drops what could not be
// delivered within five seconds.
type gate struct {
	toxic *gateToxic

	mu     sync.Mutex
	closed int           // how many keep it closed
	opened chan struct{} // closed when it is open

	losing []*loss // the next of these is lost, in this order
	paces  []*pace // the slowest of each kind counts
	budget int     // bytes that still pass before the gate closes; <0: no limit
	spent  func()  // closes it then

	passed atomic.Int64 // bytes

	next *link // whose stub is being made
}

func newGate() *gate {
	open := make(chan struct{})
	close(open)
	return &gate{opened: open, budget: -1}
}

// pace is how slow a direction is.
type pace struct {
	latency time.Duration
	rate    int // bytes a second; 0: no limit
}

// slow makes the direction slow until undo is called.
func (g *gate) slow(p pace) (undo func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := &p
	g.paces = append(g.paces, at)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.paces = slices.DeleteFunc(g.paces, func(o *pace) bool { return o == at })
	}
}

// pace is the present one: the longest latency and the lowest rate.
func (g *gate) pace() (now pace) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.paces {
		now.latency = max(now.latency, p.latency)
		if p.rate > 0 && (now.rate == 0 || p.rate < now.rate) {
			now.rate = p.rate
		}
	}
	return now
}

// shutAfter closes the gate once so many more bytes have passed, until open is
// called.
func (g *gate) shutAfter(bytes int) (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var again func()
	g.budget = bytes
	g.spent = func() { again = g.shut() }
	return sync.OnceFunc(func() {
		g.mu.Lock()
		g.budget, g.spent = -1, nil
		g.mu.Unlock()
		if again != nil {
			again()
		}
	})
}

// allow says how many of n bytes may pass now; with the last of a budget the
// gate closes.
func (g *gate) allow(n int) int {
	g.mu.Lock()
	if g.budget < 0 {
		g.mu.Unlock()
		return n
	}
	n = min(n, g.budget)
	g.budget -= n
	if g.budget > 0 {
		g.mu.Unlock()
		return n
	}
	spent := g.spent
	g.budget, g.spent = -1, nil
	g.mu.Unlock()
	spent()
	return n
}

// shut closes the gate until open is called.
func (g *gate) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed++; g.closed == 1 {
		g.opened = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.closed--; g.closed == 0 {
			close(g.opened)
		}
	})
}

// way is closed while the gate is open.
func (g *gate) way() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

// loss is one reply that is to be lost.
type loss struct{ landed chan struct{} }

// lose arms the loss of the next bytes that come. cancel disarms it, if they
// have not come.
func (g *gate) lose() (l *loss, cancel func()) {
	l = &loss{make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.losing = append(g.losing, l)
	return l, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for i, o := range g.losing {
			if o == l {
				g.losing = append(g.losing[:i], g.losing[i+1:]...)
				return
			}
		}
	}
}

// lost takes the loss that strikes what has come; nil: none does.
func (g *gate) lost() *loss {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.losing) == 0 {
		return nil
	}
	l := g.losing[0]
	g.losing = g.losing[1:]
	return l
}

// gateToxic is a gate as toxiproxy knows it.
type gateToxic struct{ gate *gate }

const toxicName = "lockcheck-gate"

// toxiproxy makes toxics by name from a registry of the whole program.
var register = sync.OnceFunc(func() { toxics.Register(toxicName, new(gateToxic)) })

// NewState is called for each connection before its Pipe.
func (t *gateToxic) NewState() interface{} { return t.gate.next }

// Pipe passes on what comes while the gate is open.
func (t *gateToxic) Pipe(stub *toxics.ToxicStub) {
	l := stub.State.(*link)
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if !t.through(l) || c == nil {
				stub.Close()
				drain(stub.Input)
				return
			}
			if lost := t.gate.lost(); lost != nil {
				l.reset()
				close(lost.landed)
				stub.Close()
				drain(stub.Input)
				return
			}
			if !t.pass(l, stub, c) {
				stub.Close()
				drain(stub.Input)
				return
			}
		}
	}
}

// pass hands the chunk on, as slowly as the gate is, and in pieces where it may
// not pass as a whole; false: the connection was reset first.
func (t *gateToxic) pass(l *link, stub *toxics.ToxicStub, c *stream.StreamChunk) bool {
	if !l.sleep(time.Until(c.Timestamp.Add(t.gate.pace().latency))) {
		return false
	}
	for data := c.Data; len(data) > 0; {
		if !t.through(l) {
			return false
		}
		n := len(data)
		rate := t.gate.pace().rate
		if rate > 0 {
			n = min(n, max(1, rate/10))
		}
		if n = t.gate.allow(n); n == 0 {
			continue
		}
		select {
		case stub.Output <- &stream.StreamChunk{Data: data[:n], Timestamp: c.Timestamp}:
		case <-l.over:
			return false
		}
		t.gate.passed.Add(int64(n))
		if data = data[n:]; rate > 0 && !t.tick(l, n) {
			return false
		}
	}
	return true
}

// tick waits for as long as n bytes take, at most until the gate is fast again.
func (t *gateToxic) tick(l *link, n int) bool {
	for began := time.Now(); ; {
		rate := t.gate.pace().rate
		if rate == 0 {
			return true
		}
		left := time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate)))
		if left <= 0 {
			return true
		}
		if !l.sleep(min(left, 10*time.Millisecond)) {
			return false
		}
	}
}

// sleep is false where the connection was reset meanwhile.
func (l *link) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.over:
		return false
	}
}

// through waits for the gate to be open; false: the proxy was closed first.
func (t *gateToxic) through(l *link) bool {
	for {
		way := t.gate.way()
		select {
		case <-way:
			if way == t.gate.way() {
				return true
			}
		case <-l.over:
			return false
		}
	}
}

// drain lets the reader of a connection that ended come to its end.
func drain(in <-chan *stream.StreamChunk) {
	go func() {
		for range in {
		}
	}()
}
