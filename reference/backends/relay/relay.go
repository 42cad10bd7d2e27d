// Package relay stands between clients and a server whose protocol it is given.
// It knows one request from the next, so that it can count those that reach the
// server, and lose or hold back one request or one reply of one key. It is how a
// test loses exactly the reply to a release.
//
// What it holds back holds back all that follows on the same connection, as
// TCP does. Nothing is ever reordered.
package relay

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/reference/backends/interference"
)

// Protocol reads what goes by on one connection, whose requests are answered in
// their order. Each method is called by one goroutine.
type Protocol interface {
	// Request reads the client's next request.
	Request(in *bufio.Reader) (Request, error)
	// Reply reads the server's next reply. With an error comes what was read
	// before it.
	Reply(in *bufio.Reader) (Reply, error)
}

// Request is what a client asks.
type Request struct {
	Raw     []byte // as it came
	Op, Key string // in the words of the lock; an empty Op: it is none of the lock's
	Silent  bool   // it is not answered
}

// Reply is what a server says.
type Reply struct {
	Raw     []byte // as it came
	Unasked bool   // it answers no request
	Again   bool   // the request does not count: the client asks it again in other words
}

// Relay is a listener and the connections that came in by it.
type Relay struct {
	protocol func() Protocol
	listener net.Listener
	rules    interference.Rules
	working  sync.WaitGroup
	ctx      context.Context
	stop     context.CancelFunc

	mu     sync.Mutex
	server string
	conns  map[net.Conn]bool
}

// New listens on a free port of the loopback interface and relays to server,
// host:port, until Close. Each connection has a protocol of its own.
func New(server string, protocol func() Protocol) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{protocol: protocol, listener: l, server: server, conns: map[net.Conn]bool{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.working.Go(r.accept)
	return r, nil
}

// Requests is how many requests that match have reached the server. Empty
// words match all.
func (r *Relay) Requests(op, key string) int { return r.rules.Requests(op, key) }

// Interfere strikes the next requests that match, times of them; -1: all,
// until lifted. Empty words match all that is the lock's.
func (r *Relay) Interfere(what interference.Kind, op, key string, times int) (*interference.Struck, error) {
	return r.rules.Interfere(what, op, key, times)
}

// Addr is where clients connect to.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Move makes new connections go to another address of the server, which was
// started anew.
func (r *Relay) Move(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.server = server
}

// Close ends every connection. It is safe to call twice.
func (r *Relay) Close() error {
	r.stop()
	err := r.listener.Close()
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.working.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (r *Relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.working.Go(func() { r.relay(c) })
	}
}

// keep notes a connection, so that Close ends it; one that comes too late is
// closed.
func (r *Relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		c.Close()
		return false
	}
	r.conns[c] = true
	return true
}

func (r *Relay) forget(c net.Conn) {
	c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

const dialLimit = 5 * time.Second

// relay serves one client.
func (r *Relay) relay(client net.Conn) {
	if !r.keep(client) {
		return
	}
	defer r.forget(client)
	r.mu.Lock()
	addr := r.server
	r.mu.Unlock()
	server, err := net.DialTimeout("tcp", addr, dialLimit)
	if err != nil {
		reset(client)
		return
	}
	if !r.keep(server) {
		return
	}
	defer r.forget(server)
	p := &path{r: r, protocol: r.protocol(), client: client, server: server, asked: make(chan exchange, 1024)}
	var replies sync.WaitGroup
	replies.Go(p.replies)
	p.requests()
	replies.Wait()
}

// reset makes a refusal look like one: RST, not an orderly end.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
}

// path is one client's way to the server and back.
type path struct {
	r              *Relay
	protocol       Protocol
	client, server net.Conn
	asked          chan exchange // what the server owes a reply to, in order
}

// exchange is one request whose reply has not come.
type exchange struct {
	op, key string
	rule    *interference.Rule // strikes its reply; nil: none
}

// requests passes on what the client asks. When the client is gone, the server
// hears of it once all that was held back has been passed on.
func (p *path) requests() {
	defer close(p.asked)
	in := bufio.NewReader(p.client)
	for lost := false; ; {
		asked, err := p.protocol.Request(in)
		if err != nil {
			endWrites(p.server)
			return
		}
		x := exchange{op: asked.Op, key: asked.Key}
		rule := p.r.rules.Strike(x.op, x.key)
		switch {
		case lost:
			continue // what came before never arrived, so this cannot
		case rule == nil:
		case rule.What == interference.DropRequest:
			rule.Hit()
			lost = true
			continue
		case rule.What == interference.HoldRequest:
			rule.Hit()
			if !wait(p.r.ctx, rule.Lifted()) {
				return
			}
		default:
			x.rule = rule
		}
		p.r.rules.Count(x.op, x.key, 1)
		if !asked.Silent {
			p.asked <- x
		}
		if _, err := p.server.Write(asked.Raw); err != nil {
			reset(p.client)
			p.client.Close()
			return
		}
	}
}

// replies passes on what the server answers. When the server is gone, so is the
// client's connection, at once: what it asked will not be answered.
func (p *path) replies() {
	defer p.client.Close()
	in := bufio.NewReader(p.server)
	for lost := false; ; {
		reply, err := p.protocol.Reply(in)
		if err != nil {
			if lost {
				p.drain()
			} else {
				_, _ = p.client.Write(reply.Raw)
			}
			return
		}
		x, expected := exchange{}, true
		if !reply.Unasked {
			x, expected = p.next()
		}
		if reply.Again {
			p.r.rules.Count(x.op, x.key, -1)
		}
		if x.rule != nil {
			x.rule.Hit()
			switch x.rule.What {
			case interference.DropReply:
				lost = true
			case interference.HoldReply:
				if !wait(p.r.ctx, x.rule.Lifted()) {
					return
				}
			}
		}
		if lost || !expected {
			continue
		}
		if _, err := p.client.Write(reply.Raw); err != nil {
			p.server.Close()
			return
		}
	}
}

// next is the request that a reply belongs to.
func (p *path) next() (exchange, bool) {
	select {
	case x, ok := <-p.asked:
		return x, ok
	default:
		return exchange{}, true // the server speaks unasked: too many clients
	}
}

// drain keeps the client's connection until the client gives it up: a reply
// that was lost does not come with an end of the connection, which would be an
// answer.
func (p *path) drain() {
	for {
		select {
		case _, ok := <-p.asked:
			if !ok {
				return
			}
		case <-p.r.ctx.Done():
			return
		}
	}
}

func endWrites(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
}

func wait(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}
