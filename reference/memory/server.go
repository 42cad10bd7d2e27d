package memory

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Options are a server's settings.
type Options struct {
	// Store is what is served; default: a new one on the real clock.
	Store *Store

	_ struct{}
}

// Serve answers the protocol on l, and the admin's on admin unless that is
// nil, until ctx ends or a listener fails. Then both listeners and all
// connections are closed and everything it started has ended. The error is nil
// if ctx ended.
func Serve(ctx context.Context, l, admin net.Listener, opts *Options) error {
	s := &server{store: storeOf(opts), conns: make(map[net.Conn]bool)}
	told := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	var ports sync.WaitGroup
	ports.Go(func() { cancel(s.accept(ctx, l, false, s.data)) })
	if admin != nil {
		ports.Go(func() { cancel(s.accept(ctx, admin, true, s.admin)) })
	}
	ports.Wait()
	s.close(func(bool) bool { return true })
	s.working.Wait()
	if told.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

func storeOf(opts *Options) *Store {
	if opts == nil || opts.Store == nil {
		return New(nil)
	}
	return opts.Store
}

type server struct {
	store   *Store
	faults  faults
	counts  counts
	working sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // true: the admin's
}

// handler answers a request by calling reply once, later, or never.
type handler func(ctx context.Context, m message, reply func(message))

// accept serves the connections of a listener until ctx ends, and then closes it.
func (s *server) accept(ctx context.Context, l net.Listener, admin bool, handle handler) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		s.mu.Lock()
		s.conns[c] = admin
		s.mu.Unlock()
		s.working.Go(func() { s.serve(ctx, c, handle) })
	}
}

// serve answers one connection.
func (s *server) serve(ctx context.Context, c net.Conn, handle handler) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	w := &lineWriter{w: c}
	in := bufio.NewScanner(c)
	in.Buffer(make([]byte, 0, 4096), maxLine)
	for in.Scan() {
		m, err := decode(in.Bytes())
		if err != nil {
			w.write(message{Outcome: lockspec.Config, Message: "no JSON line: " + err.Error()})
			return
		}
		handle(ctx, m, func(reply message) { w.write(reply) })
	}
}

// close closes the connections that are the admin's, or are not.
func (s *server) close(which func(admin bool) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, admin := range s.conns {
		if which(admin) {
			c.Close()
		}
	}
}

func (s *server) closeData() { s.close(func(admin bool) bool { return !admin }) }

// apply does what a request of the data port asks.
func (s *server) apply(m message) message {
	var err error
	reply := message{}
	switch m.Op {
	case "acquire":
		reply.Token, err = s.store.Acquire(Request{m.Key, m.Owner, m.lease(), m.Mode, m.Count, m.Limit, m.Waits})
		reply.Lease = m.Lease
	case "renew":
		err = s.store.Renew(m.Key, m.Owner, m.lease())
		reply.Lease = m.Lease
	case "release":
		err = s.store.Release(m.Key, m.Owner)
	case "delete":
		if !s.store.Delete(m.Key) {
			err = lockspec.ErrNotHeld
		}
	case "get":
		for _, h := range s.store.Inspect(m.Key) {
			reply.Owner = h.Owner
		}
	case "ping":
	default:
		err = fmt.Errorf("%w: op %q", lockspec.ErrUnsupported, m.Op)
	}
	if err != nil {
		return answer(m.ID, err)
	}
	reply.ID, reply.Outcome = m.ID, lockspec.OK
	return reply
}

// lineWriter writes messages, one at a time.
type lineWriter struct {
	mu sync.Mutex
	w  net.Conn
}

const writeTimeout = 5 * time.Second

func (w *lineWriter) write(m message) error {
	line, err := encode(m)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.w.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err = w.w.Write(line)
	return err
}
