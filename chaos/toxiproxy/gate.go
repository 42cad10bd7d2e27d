package toxiproxy

import (
	"sync"

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

	next *link // whose stub is being made
}

func newGate() *gate {
	open := make(chan struct{})
	close(open)
	return &gate{opened: open}
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
			select {
			case stub.Output <- c:
			case <-l.over:
				stub.Close()
				drain(stub.Input)
				return
			}
		}
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
