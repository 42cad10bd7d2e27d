package toxiproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/rs/zerolog"
)

// Direction is what of a connection a fault strikes.
type Direction int

// The directions.
const (
	Requests Direction            = 1 << iota // from the client to the server
	Replies                                   // from the server to the client
	Both     = Requests | Replies             // each of them
)

// Proxy is a way from clients to one server. It listens on a port of 127.0.0.1
// that stays the same whatever becomes of the server. It is safe for concurrent
// use.
type Proxy struct {
	addr     string
	requests *gate
	replies  *gate
	api      *toxiproxy.ApiServer
	inner    *toxiproxy.Proxy
	working  sync.WaitGroup

	mu       sync.Mutex
	upstream string
	listener net.Listener // nil: it refuses
	links    map[*link]bool
	opened   int
	closed   bool
}

// Listen makes a way to the server at upstream, host:port, which need not be
// there yet. Close ends it.
func Listen(upstream string) (*Proxy, error) {
	register()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("toxiproxy: %w", err)
	}
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{addr: l.Addr().String(), upstream: upstream, requests: newGate(), replies: newGate(), api: api,
		inner: toxiproxy.NewProxy(api, "", l.Addr().String(), upstream), links: map[*link]bool{}}
	for _, way := range []struct {
		gate   *gate
		stream string
	}{{p.requests, "upstream"}, {p.replies, "downstream"}} {
		w, err := p.inner.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type":%q,"stream":%q}`, toxicName, way.stream)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("toxiproxy: %w", err), l.Close())
		}
		way.gate.toxic = w.Toxic.(*gateToxic)
		way.gate.toxic.gate = way.gate
	}
	p.serve(l)
	return p, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.addr }

// serve accepts connections until the listener is closed.
func (p *Proxy) serve(l net.Listener) {
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.working.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.connect(client)
		}
	})
}

// dialLimit bounds how long a client waits for the server to take its
// connection; on this machine it does so at once or not at all.
const dialLimit = 5 * time.Second

// connect joins a client to the server. One whose server cannot be reached is
// reset: a client that is told nothing takes it for a slow one.
func (p *Proxy) connect(client net.Conn) {
	p.mu.Lock()
	upstream := p.upstream
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", upstream, dialLimit)
	if err != nil {
		abort(client)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		abort(client)
		abort(server)
		return
	}
	l := &link{proxy: p, client: client, server: server, over: make(chan struct{}), open: 2}
	p.links[l] = true
	p.opened++
	p.working.Add(2)
	name := fmt.Sprint(p.opened)
	p.requests.next, p.replies.next = l, l
	p.inner.Toxics.StartLink(p.api, name+"upstream", client, end{l, server}, stream.Upstream)
	p.inner.Toxics.StartLink(p.api, name+"downstream", server, end{l, client}, stream.Downstream)
}

// Cut holds what is sent in the direction, on every connection and on those to
// come, until heal is called; connections that are opened meanwhile are
// accepted, and nothing of them arrives. A peer that gives up meanwhile ends the
// connection when it heals. heal may be called twice.
func (p *Proxy) Cut(d Direction) (heal func()) { return p.both(d, (*gate).shut) }

// CutAfter cuts the direction once so many more bytes of it have passed, in the
// middle of a message if that is where it comes to, until heal is called.
func (p *Proxy) CutAfter(d Direction, bytes int) (heal func()) {
	return p.both(d, func(g *gate) func() { return g.shutAfter(bytes) })
}

// Slow makes everything in the direction arrive so much later, and no faster
// than so many bytes a second, 0 being as fast as ever, until heal is called.
func (p *Proxy) Slow(d Direction, latency time.Duration, bytesPerSecond int) (heal func()) {
	return p.both(d, func(g *gate) func() { return g.slow(pace{latency, bytesPerSecond}) })
}

// Passed is how many bytes have passed so far, both ways.
func (p *Proxy) Passed() int64 { return p.requests.passed.Load() + p.replies.passed.Load() }

// both does something to the gate of each direction.
func (p *Proxy) both(d Direction, do func(*gate) (undo func())) (undo func()) {
	var undos []func()
	if d&Requests != 0 {
		undos = append(undos, do(p.requests))
	}
	if d&Replies != 0 {
		undos = append(undos, do(p.replies))
	}
	return func() {
		for _, u := range undos {
			u()
		}
	}
}

// LoseReply lets the next reply be lost: its request was delivered, the reply
// is kept, and the client's connection is reset. landed is closed when that has
// happened; cancel disarms it where it has not.
func (p *Proxy) LoseReply() (landed <-chan struct{}, cancel func()) {
	l, cancel := p.replies.lose()
	return l.landed, cancel
}

// Reset ends every connection at once with an RST, to the client and to the
// server. It returns how many there were. New ones are accepted.
func (p *Proxy) Reset() int {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.reset()
	}
	return len(links)
}

// Refuse refuses new connections until heal is called; those that are open stay.
// heal fails where another took the port meanwhile.
func (p *Proxy) Refuse() (heal func() error, err error) {
	p.mu.Lock()
	l := p.listener
	p.listener = nil
	p.mu.Unlock()
	if l == nil {
		return nil, errors.New("toxiproxy: it refuses already, or is closed")
	}
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("toxiproxy: %w", err)
	}
	return sync.OnceValue(func() error {
		p.mu.Lock()
		closed := p.closed
		p.mu.Unlock()
		if closed {
			return nil
		}
		l, err := net.Listen("tcp", p.addr)
		if err != nil {
			return fmt.Errorf("toxiproxy: %w", err)
		}
		p.serve(l)
		return nil
	}), nil
}

// Point leads new connections to another server: what a name that was moved
// does. Those that are open stay.
func (p *Proxy) Point(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// Connections is how many are open.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Close ends the way and every connection, held or not, and waits until nothing
// of them is left. It may be called twice.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	l := p.listener
	p.listener = nil
	p.mu.Unlock()
	var err error
	if l != nil {
		err = l.Close()
	}
	p.Reset()
	p.working.Wait()
	return err
}

// link is one connection.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	over           chan struct{} // closed when it ended: nothing is held of it any more
	once           sync.Once

	open int // directions that have not come to their end; under the proxy's mutex
}

// reset ends the connection for both peers with an RST. That it is to be one is
// said of both before either is closed: the end of the one makes toxiproxy close
// the other, and that would be a FIN.
func (l *link) reset() {
	l.once.Do(func() {
		linger(l.client)
		linger(l.server)
		close(l.over)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// abort closes with an RST.
func abort(c net.Conn) {
	linger(c)
	_ = c.Close()
}

// linger makes an RST of what closing would say.
func linger(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
}

// end is where a direction of a link writes to. toxiproxy closes it when the
// direction has come to its end, which says nothing of the other one: a peer
// that has no more to say may still listen.
type end struct {
	*link
	net.Conn
}

var _ io.WriteCloser = end{}

// Write implements io.Writer.
func (e end) Write(b []byte) (int, error) { return e.Conn.Write(b) }

// Close implements io.Closer.
func (e end) Close() error {
	var err error
	select {
	case <-e.over: // it is being reset
	default:
		if t, ok := e.Conn.(*net.TCPConn); ok {
			err = t.CloseWrite()
		}
	}
	p := e.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.link.open--; e.link.open == 0 {
		_ = e.client.Close()
		_ = e.server.Close()
		delete(p.links, e.link)
	}
	p.working.Done()
	return err
}
