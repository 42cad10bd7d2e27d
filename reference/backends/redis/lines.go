package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// lines are the ways of a backend to its server, each for one call at a time.
// A client of many connections would not say which of them a call has.
type lines struct {
	options goredis.Options
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	free    chan struct{} // holds a value for each line that is taken

	mu     sync.Mutex
	idle   []*line // the one used last is taken first
	all    []*line
	closed bool
}

// line is one client with one connection. The client heeds no cancellation
// while it reads, and takes a context's deadline for one of this machine's
// clock, which an engine's need not be: so it gets no deadline, and a call that
// is to end loses the connection it waits on.
type line struct {
	options goredis.Options
	conn    *goredis.Conn // kept from call to call; nil: the next takes one
	used    time.Time     // by a call that was answered

	mu     sync.Mutex
	client *goredis.Client // changed by who has the line only
	conns  [2]net.Conn     // made last, first; the second may be one that a dropped call had dialled
	call   uint64          // that is under way
	ended  uint64          // the newest call that was cut
}

// kept is how long a connection is used again without a look at whether the
// server has closed it. A look at each call is a twelfth of what a call costs.
const kept = 50 * time.Millisecond

// never makes the client set no deadlines at all.
const never = -2

func newLines(o goredis.Options) *lines {
	l := &lines{options: o, dial: o.Dialer, free: make(chan struct{}, o.PoolSize)}
	if l.dial == nil {
		l.dial = goredis.NewDialer(&o)
	}
	l.options.PoolSize = 2 // one is not enough for the client to go on dialling after an error
	l.options.ReadTimeout, l.options.WriteTimeout = never, never
	return l
}

// take gives a line that nobody else has, for one call.
func (l *lines) take(ctx context.Context) (*line, error) {
	select {
	case l.free <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w: all %d connections are in use", lockspec.ErrUnavailable, reference.ErrNotSent, cap(l.free))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch n := len(l.idle); {
	case l.closed:
		<-l.free
		return nil, fmt.Errorf("%w: %w: %w", lockspec.ErrUnavailable, reference.ErrNotSent, goredis.ErrClosed)
	case n > 0:
		w := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return w, nil
	}
	w := &line{options: l.options}
	w.options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := l.dial(ctx, network, addr)
		if err == nil {
			w.made(c)
		}
		return c, err
	}
	w.client = goredis.NewClient(&w.options)
	l.all = append(l.all, w)
	return w, nil
}

func (l *lines) give(w *line) {
	l.mu.Lock()
	l.idle = append(l.idle, w)
	l.mu.Unlock()
	<-l.free
}

func (l *lines) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var first error
	for _, w := range l.all {
		if err := w.close(); first == nil {
			first = err
		}
	}
	return first
}

func (w *line) made(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == w.call { // it comes too late for its call
		hangUp(c)
	}
	w.conns = [2]net.Conn{c, w.conns[0]}
}

// begin says which call has the line now.
func (w *line) begin() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call++
	return w.call
}

// cut ends the call, unless another has the line by now.
func (w *line) cut(call uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.call != call {
		return
	}
	w.ended = call
	for _, c := range w.conns {
		if c != nil {
			hangUp(c)
		}
	}
}

// hangUp closes a connection at once: TLS would take its time to say goodbye.
func hangUp(c net.Conn) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	c.Close()
}

// session is the connection for the call that begins.
func (w *line) session() *goredis.Conn {
	if w.conn != nil && time.Since(w.used) > kept {
		w.drop(nil) // the client looks at what it takes from its pool
	}
	if w.conn == nil {
		w.conn = w.client.Conn()
	}
	return w.conn
}

// drop gives the connection back to its client, which forgets a broken one. A
// client that failed to dial goes too: after as many failures as it may have
// connections it would not dial for a second, and tell the old error, though the
// server is back.
func (w *line) drop(why error) {
	w.conn.Close()
	w.conn = nil
	var op *net.OpError
	if errors.As(why, &op) && op.Op == "dial" {
		w.close()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.client = goredis.NewClient(&w.options)
	}
}

func (w *line) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.client.Close()
}

// on runs f with a connection that nobody else uses, and returns soon after ctx
// has ended, wherever f waits. Whether the server has heard is not known then.
func on[T any](ctx context.Context, b *Backend, f func(context.Context, *goredis.Conn) (T, error)) (T, error) {
	var none T
	if ctx.Done() == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callLimit)
		defer cancel()
	}
	w, err := b.lines.take(ctx)
	if err != nil {
		return none, err
	}
	defer b.lines.give(w)
	call := w.begin()
	stop := context.AfterFunc(ctx, func() { w.cut(call) })
	v, err := f(undated{ctx}, w.session())
	w.used = time.Now()
	over := !stop()
	if over || err != nil && !errors.Is(err, lockspec.ErrBusy) {
		w.drop(err)
	}
	if over && err != nil {
		return none, ctx.Err()
	}
	return v, err
}

// undated is a context without its deadline.
type undated struct{ context.Context }

func (undated) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
