// Package relay stands between clients and a server that speaks HTTP/1.1. It
// knows one request from the next, so that it can count those that reach the
// server, and lose or hold back one request or one reply of one key.
//
// It writes the names of headers in the case that Go gives them.
package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/reference/backends/interference"
)

// Protocol says what requests do, in the words of the lock.
type Protocol struct {
	// Classify says what a request does to which key: an empty op is a request
	// that is none of the lock's.
	Classify func(*http.Request) (op, key string)
	// Void says whether a reply makes a request one that did not count, because
	// its client asks the same again.
	Void func(op string, reply *http.Response) bool
}

// Relay is a listener and the requests that came in by it.
type Relay struct {
	protocol Protocol
	rules    interference.Rules
	listener net.Listener
	server   *http.Server
	way      *http.Transport
	serving  sync.WaitGroup
	ctx      context.Context
	stop     context.CancelFunc

	mu sync.Mutex
	to string // host:port
}

// idleLimit is less than the server's own.
const idleLimit = 30 * time.Second

const dialLimit = 5 * time.Second

// New listens on a free port of the loopback interface and relays to server,
// host:port, until Close.
func New(server string, p Protocol) (*Relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{protocol: p, listener: l, to: server, way: &http.Transport{
		DialContext:  (&net.Dialer{Timeout: dialLimit}).DialContext,
		MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: idleLimit, DisableCompression: true,
	}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.server = &http.Server{Handler: http.HandlerFunc(r.relay), ErrorLog: log.New(io.Discard, "", 0)}
	r.serving.Go(func() { _ = r.server.Serve(l) })
	return r, nil
}

// Addr is where clients connect to.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Requests is how many requests that match have reached the server. Empty
// words match all.
func (r *Relay) Requests(op, key string) int { return r.rules.Requests(op, key) }

// Interfere strikes the next requests that match, times of them; -1: all,
// until lifted. Empty words match all that is the lock's.
func (r *Relay) Interfere(what interference.Kind, op, key string, times int) (*interference.Struck, error) {
	return r.rules.Interfere(what, op, key, times)
}

// Move makes requests go to another address of the server, which was started
// anew.
func (r *Relay) Move(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = server
	r.way.CloseIdleConnections()
}

// Close ends every connection. It is safe to call twice.
func (r *Relay) Close() error {
	r.stop()
	err := r.server.Close()
	r.serving.Wait()
	r.way.CloseIdleConnections()
	return err
}

// relay serves one request. A request that was held outlives its client, as
// packets on their way do; a reply that was lost does not come with an end of
// the connection, which would be an answer.
func (r *Relay) relay(w http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		abort()
	}
	op, key := r.protocol.Classify(in)
	rule := r.rules.Strike(op, key)
	switch {
	case rule == nil:
	case rule.What == interference.DropRequest:
		rule.Hit()
		r.silence(in)
	case rule.What == interference.HoldRequest:
		rule.Hit()
		if !r.wait(rule.Lifted()) {
			abort()
		}
	}
	r.rules.Count(op, key, 1)
	reply, text, err := r.forward(in, body)
	if err != nil {
		abort() // a server that is gone has ended its connections
	}
	if r.protocol.Void(op, reply) {
		r.rules.Count(op, key, -1)
		r.rules.Spare(rule)
		rule = nil
	}
	switch {
	case rule == nil:
	case rule.What == interference.DropReply:
		rule.Hit()
		r.silence(in)
	case rule.What == interference.HoldReply:
		rule.Hit()
		if !r.wait(rule.Lifted()) {
			abort()
		}
	}
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(reply.StatusCode)
	_, _ = w.Write(text)
}

// forward makes the request of the server, and has all of the reply.
func (r *Relay) forward(in *http.Request, body []byte) (*http.Response, []byte, error) {
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	out := in.Clone(r.ctx)
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host = "http", to
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(body) == 0 {
		out.Body = http.NoBody
	}
	reply, err := r.way.RoundTrip(out)
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(reply.Body)
	return reply, text, errors.Join(err, reply.Body.Close())
}

// silence keeps the connection until the client gives it up.
func (r *Relay) silence(in *http.Request) {
	select {
	case <-in.Context().Done():
	case <-r.ctx.Done():
	}
	abort()
}

func (r *Relay) wait(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// abort ends the handler and its connection without an answer.
func abort() { panic(http.ErrAbortHandler) }
