package memory

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// Dial is a backend of class lease that speaks to a server ([Serve]) at addr,
// over one TCP connection that is made when it is needed and made again when
// it broke. Nothing is dialled yet. It declares every hazard of its class.
func Dial(addr string, opts *BackendOptions) reference.Backend {
	return newRemote(addr, opts)
}

// patience is how long a connection may owe a reply before it is given up as
// half open. It is long against a request's own time-out on purpose: what
// follows on the same connection cannot overtake what came before, so the
// release that cleans up after an acquire without an answer finds its grant.
const patience = 2 * time.Second

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

func newRemote(addr string, opts *BackendOptions) *remote {
	return &remote{addr: addr, opts: opts.withDefaults(), patience: patience, dialling: make(chan struct{}, 1)}
}

type remote struct {
	addr string
	opts BackendOptions

	patience time.Duration // with a connection that owes a reply
	dialling chan struct{} // holds a value while a connection is made

	mu     sync.Mutex
	conn   *connection
	closed bool
}

func (r *remote) Describe() lockspec.Description {
	return r.opts.describe("memory over TCP", lockspec.Leased)
}
func (r *remote) Timing() reference.Timing { return reference.Expiring(r.opts.Lease) }

func (r *remote) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	reply, err := r.call(ctx, message{Op: "acquire", Key: c.Key, Owner: c.Owner, Lease: int64(c.Lease),
		Mode: c.Mode, Count: c.Count, Limit: r.opts.Capacity, Waits: c.Waits})
	return reference.Grant{Token: reply.Token, Lease: reply.lease()}, err
}

func (r *remote) Renew(ctx context.Context, c reference.Claim) error {
	_, err := r.call(ctx, message{Op: "renew", Key: c.Key, Owner: c.Owner, Lease: int64(c.Lease)})
	return err
}

func (r *remote) Release(ctx context.Context, c reference.Claim) error {
	_, err := r.call(ctx, message{Op: "release", Key: c.Key, Owner: c.Owner})
	return err
}

func (r *remote) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.conn != nil {
		r.conn.fail(errClosed)
	}
	return nil
}

var errClosed = errors.New("connection closed by its user")

// call sends a request and waits for its reply.
func (r *remote) call(ctx context.Context, m message) (message, error) {
	c, err := r.connect(ctx)
	if err != nil {
		return message{}, fmt.Errorf("%w: %w: %w", lockspec.ErrUnavailable, reference.ErrNotSent, err)
	}
	reply, err := c.roundTrip(ctx, m)
	if err != nil {
		return message{}, fmt.Errorf("%w: %w", lockspec.ErrUnavailable, err)
	}
	return reply, reply.err()
}

// connect gives the connection, a new one if it broke.
func (r *remote) connect(ctx context.Context) (*connection, error) {
	if c, err := r.current(); c != nil || err != nil {
		return c, err
	}
	select {
	case r.dialling <- struct{}{}:
		defer func() { <-r.dialling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c, err := r.current(); c != nil || err != nil {
		return c, err
	}
	nc, err := r.opts.Dial(ctx, r.addr)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		nc.Close()
		return nil, errClosed
	}
	r.conn = newConnection(nc, r.patience)
	return r.conn, nil
}

// current is the connection, or nil if there is none that works.
func (r *remote) current() (*connection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, errClosed
	case r.conn == nil || r.conn.broken():
		return nil, nil
	default:
		return r.conn, nil
	}
}

// connection matches replies to requests by id.
type connection struct {
	conn     net.Conn
	w        lineWriter
	patience time.Duration
	done     chan struct{} // closed when it broke

	mu      sync.Mutex
	err     error
	next    int64
	waiting map[int64]chan message
	owing   time.Time // since when a reply is owed and none has come; zero: none is owed
}

func newConnection(nc net.Conn, patience time.Duration) *connection {
	c := &connection{conn: nc, w: lineWriter{w: nc}, patience: patience,
		done: make(chan struct{}), waiting: make(map[int64]chan message)}
	go c.read()
	return c
}

func (c *connection) broken() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *connection) read() {
	in := bufio.NewScanner(c.conn)
	in.Buffer(make([]byte, 0, 4096), maxLine)
	for in.Scan() {
		m, err := decode(in.Bytes())
		if err != nil {
			c.fail(fmt.Errorf("no reply: %w", err))
			return
		}
		c.deliver(m)
	}
	err := in.Err()
	if err == nil {
		err = errors.New("connection closed by the server")
	}
	c.fail(err)
}

func (c *connection) deliver(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owing = time.Time{}
	if w := c.waiting[m.ID]; w != nil {
		delete(c.waiting, m.ID)
		w <- m
	}
	if len(c.waiting) > 0 {
		c.owing = time.Now()
	}
}

// fail breaks the connection. Its callers are answered with the first error.
func (c *connection) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	c.conn.Close()
	close(c.done)
}

// roundTrip sends a request and waits for its reply.
func (c *connection) roundTrip(ctx context.Context, m message) (message, error) {
	reply := make(chan message, 1)
	m.ID = c.expect(reply)
	if err := c.w.write(m); err != nil {
		c.fail(err)
	}
	select {
	case r := <-reply:
		return r, nil
	case <-c.done:
		return message{}, c.err
	case <-ctx.Done():
		c.forget(m.ID)
		return message{}, ctx.Err()
	}
}

func (c *connection) expect(reply chan message) (id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	c.waiting[c.next] = reply
	if c.owing.IsZero() {
		c.owing = time.Now()
	}
	return c.next
}

// forget stops waiting for a reply, and gives up a connection that has been
// silent for too long: only a new one would tell whether it is half open.
func (c *connection) forget(id int64) {
	c.mu.Lock()
	delete(c.waiting, id)
	silent := !c.owing.IsZero() && time.Since(c.owing) >= c.patience
	c.mu.Unlock()
	if silent {
		c.fail(errors.New("connection silent"))
	}
}
