package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Lock is one node's way to a lock service.
type Lock interface {
	// Describe says what is claimed of the lock. It does not ask the service.
	Describe() lockspec.Description
	// Client is a new owner: a session, connection or thread of its own.
	Client(process string) (lockspec.Client, error)
	// Close gives up what the clients share. It comes after their Close.
	Close() error
}

// Pinger is the power of a [Lock] to ask its service whether it is there,
// without acquiring anything.
type Pinger interface {
	Ping(ctx context.Context) error
}

// ClockSetter is the power of a [Lock] to shift the clock that its clients
// read: by offset from now on, and running at rate (1: right).
type ClockSetter interface {
	SetClock(offset time.Duration, rate float64) error
}

// Target is what hello says: which service to use, and as whom.
type Target struct {
	URL         string   // of the service; it wins over anything the command line said
	Endpoints   []string // host:port of what to connect to, where there is no URL
	Node        string
	Incarnation int // 1 is the first; one more after each restart

	_ struct{}
}

// Opener makes the lock of a node. It must not wait for the service, which may
// be unreachable on purpose: the first acquisition then answers unavailable.
type Opener func(ctx context.Context, at Target) (Lock, error)

const (
	maxProcesses = 64                     // operations open at once, and idle owners kept
	callBound    = 5 * time.Second        // of a call, beyond its wait
	callGrace    = 500 * time.Millisecond // for a call to come back after its deadline
	retiredKept  = 1024                   // tenures that can be asked about after their end
)

var (
	errVersion = fmt.Errorf("%w: no common version; this driver speaks %d", lockspec.ErrUnsupported, Version)
	errOpen    = errors.New("cannot open the lock")
	errHello   = harmless{errors.New("hello comes first, and once")}
	errFull    = harmless{fmt.Errorf("%w: more than %d operations are open", lockspec.ErrUnavailable, maxProcesses)}
)

// Serve answers the requests of in on out until in ends or asks for shutdown.
// At the end of in it returns at once and releases nothing: the caller is to
// exit, and what was held lapses as in a crash. It keeps reading while calls
// block and survives their panics. After a shutdown a goroutine stays on in
// until that ends.
func Serve(in io.Reader, out io.Writer, open Opener) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := newServer(ctx, out, open)
	ended := make(chan error, 1)
	go func() { ended <- s.read(ctx, in) }()
	select {
	case err := <-ended:
		return err
	case err := <-s.finished:
		return err
	}
}

// server is one Serve.
type server struct {
	open     Opener
	out      *output
	log      io.Writer
	ctx      context.Context // of the whole
	calls    context.Context // of all calls; ends at shutdown
	stop     context.CancelFunc
	finished chan error

	mu       sync.Mutex
	greeted  bool
	lock     Lock // nil until hello has opened it; set once
	says     lockspec.Description
	requests map[int64]*request // those without a reply
	working  int                // of them, those that max_processes limits
	owners   map[string]*owner
	uses     int
	tenures  map[string]*tenure
	retired  []string // ids of tenures that are over, oldest first
	lastID   int

	// sending makes "what was raised, then the reply" one step; see reply.
	sending sync.Mutex
	watched map[*tenure]bool
}

// request is one without a reply.
type request struct {
	*Request
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed after the reply
}

func newServer(ctx context.Context, out io.Writer, open Opener) *server {
	s := &server{
		open: open, out: &output{w: out}, log: os.Stderr, ctx: ctx, finished: make(chan error, 1),
		requests: map[int64]*request{}, owners: map[string]*owner{}, tenures: map[string]*tenure{}, watched: map[*tenure]bool{},
	}
	s.calls, s.stop = context.WithCancel(ctx)
	return s
}

// read takes requests until in ends. Nothing in it waits for a call.
func (s *server) read(ctx context.Context, in io.Reader) error {
	incoming := newLines(in)
	for {
		line, err := incoming.next()
		switch {
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("stdin: %w", err)
		}
		s.take(line)
	}
}

// take starts one request. It is in the table before the next line is read, so
// that a cancel which follows at once finds it.
func (s *server) take(line []byte) {
	q := new(Request)
	if err := json.Unmarshal(line, q); err != nil {
		s.reject(line, err)
		return
	}
	r, room := s.admit(q)
	go func() {
		defer s.dismiss(r)
		a := failure(errFull)
		if room {
			a = s.perform(r.ctx, q)
		}
		if q.works() {
			s.count(-1)
		}
		s.reply(q.ID, a)
	}()
}

// admit enters a request in the table; room is false if there are as many
// already as hello allows.
func (s *server) admit(q *Request) (r *request, room bool) {
	r = &request{Request: q, done: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(s.calls)
	s.mu.Lock()
	s.requests[q.ID] = r
	s.mu.Unlock()
	return r, !q.works() || s.count(1) <= maxProcesses
}

// dismiss forgets a request that was replied to.
func (s *server) dismiss(r *request) {
	r.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, r.ID)
	close(r.done)
}

// count changes the number of requests that max_processes limits. It falls
// before the reply: the next request may follow that at once.
func (s *server) count(by int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working += by
	return s.working
}

// works says whether the request is one of those that max_processes limits.
func (q *Request) works() bool { return q.Op == opAcquire || q.Op == opWrite || q.Op == opSection }

// reject answers a line that is no request, if only it has an id.
func (s *server) reject(line []byte, err error) {
	fmt.Fprintf(s.log, "driver: request %s: %v\n", clip(line), err)
	var q struct {
		ID int64 `json:"id"`
	}
	if json.Unmarshal(line, &q) == nil && q.ID != 0 {
		go s.reply(q.ID, failure(harmless{err}))
	}
}

// perform carries a request out; a panic in it is an outcome.
func (s *server) perform(ctx context.Context, q *Request) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = failure(s.panicked(p))
		}
	}()
	switch q.Op {
	case opHello:
		return s.hello(q)
	case opCancel:
		s.cancel(q.Target)
		return answer{}
	}
	s.mu.Lock()
	lock := s.lock
	s.mu.Unlock()
	if lock == nil {
		return failure(errHello)
	}
	switch q.Op {
	case opAcquire:
		return s.acquire(ctx, q)
	case opSection:
		return s.section(ctx, q)
	case opHeld, opRenew, opWrite, opRelease:
		return s.onTenure(ctx, q)
	case opPing:
		return s.ping(ctx, q)
	case opClock:
		return s.clock(q)
	case opShutdown:
		return s.shutdown(q)
	}
	return failure(fmt.Errorf("%w: unknown op %q", lockspec.ErrUnsupported, q.Op))
}

// safely makes the panic of a client an error of its call.
func (s *server) safely(call func(context.Context) (lockspec.Lease, error)) func(context.Context) (lockspec.Lease, error) {
	return func(ctx context.Context) (lease lockspec.Lease, err error) {
		defer func() {
			if p := recover(); p != nil {
				lease, err = nil, s.panicked(p)
			}
		}()
		return call(ctx)
	}
}

func (s *server) panicked(p any) error {
	fmt.Fprintf(s.log, "driver: panic: %v\n%s", p, debug.Stack())
	return fmt.Errorf("panic: %v", p)
}

// reply writes what was raised on any tenure until now, then the reply, as one
// step: a reader may take every reply, a ping's too, as "nothing was lost until
// this was computed". What the reply grants is watched from here on: the reader
// does not know its id any earlier.
func (s *server) reply(id int64, a answer) {
	s.sending.Lock()
	defer s.sending.Unlock()
	for t := range s.watched {
		if !t.flush() {
			delete(s.watched, t)
		}
	}
	a.ID = id
	if a.Outcome == "" {
		a.Outcome = lockspec.OK
	}
	s.emit(a.Reply)
	if a.granted != nil {
		s.watch(a.granted)
	}
	if a.last {
		s.finish(a.end)
	}
}

// watch begins to report what is raised on t. sending is held.
func (s *server) watch(t *tenure) {
	if !t.silent() {
		s.watched[t] = true
		go t.watch(s.ctx, func(e Event) { s.emit(e) })
	}
}

func (s *server) emit(line any) {
	if err := s.out.write(line); err != nil {
		s.finish(fmt.Errorf("stdout: %w", err))
	}
}

func (s *server) finish(err error) {
	select {
	case s.finished <- err:
	default:
	}
}

// answer is a reply and what follows from it.
type answer struct {
	Reply
	granted *tenure // by an acquisition
	last    bool    // Serve ends after it, with end
	end     error
}

// failure is the answer for an error, OK for nil.
func failure(err error) answer {
	if err == nil {
		return answer{}
	}
	r := Reply{Outcome: lockspec.OutcomeOf(err), Message: err.Error()}
	if r.Outcome.Effect() == lockspec.Unknown && lockspec.NoEffect(err) {
		r.Effect = noEffect
	}
	return answer{Reply: r}
}

// now is what time it is, 0 where the machine has no shared clock.
func now() Nanos {
	ns, _ := fakeclock.Monotonic()
	return Nanos(ns)
}
