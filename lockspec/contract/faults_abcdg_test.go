package contract_test

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// spoiled is a backend of which some methods are wrong. Those that are nil are
// right.
type spoiled struct {
	reference.Backend
	attempt func(context.Context, reference.Claim) (reference.Grant, error)
	release func(context.Context, reference.Claim) error
}

func (s spoiled) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	if s.attempt == nil {
		return s.Backend.Attempt(ctx, c)
	}
	return s.attempt(ctx, c)
}

func (s spoiled) Release(ctx context.Context, c reference.Claim) error {
	if s.release == nil {
		return s.Backend.Release(ctx, c)
	}
	return s.release(ctx, c)
}

// mapped is a backend that maps keys wrongly.
type mapped struct {
	reference.Backend
	key func(string) string
}

func (m mapped) to(c reference.Claim) reference.Claim {
	if cut := strings.LastIndex(c.Key, "/G"); cut >= 0 { // behind the prefix of a case of keys
		cut += len("/G00/")
		c.Key = c.Key[:cut] + m.key(c.Key[cut:])
	} else {
		c.Key = m.key(c.Key)
	}
	return c
}

func (m mapped) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	return m.Backend.Attempt(ctx, m.to(c))
}
func (m mapped) Renew(ctx context.Context, c reference.Claim) error {
	return m.Backend.Renew(ctx, m.to(c))
}
func (m mapped) Release(ctx context.Context, c reference.Claim) error {
	return m.Backend.Release(ctx, m.to(c))
}

// keysBy breaks how a case's keys are mapped.
func keysBy(key func(string) string) func(*lab, string) fault {
	return func(_ *lab, id string) fault {
		return fault{backend: func(b reference.Backend) reference.Backend {
			return mapped{b, func(k string) string {
				if strings.Contains(k, "lockcheck-") && !strings.Contains(k, "/"+id+"/") {
					return k
				}
				return key(k)
			}}
		}}
	}
}

// misacquiring breaks a client's acquisitions of the case's keys. next is the
// right way.
type misacquiring struct {
	lockspec.Client
	id   string
	with func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error)
}

type acquire func(context.Context, lockspec.Request) (lockspec.Lease, error)

func (a misacquiring) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	if r.Key != "" && !strings.Contains(r.Key, "/"+a.id+"/") {
		return a.Client.Acquire(ctx, r)
	}
	return a.with(ctx, r, a.Client.Acquire)
}

// acquireBy makes every client acquire wrongly. make is called once for each.
func acquireBy(make func(l *lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error)) func(*lab, string) fault {
	return func(l *lab, id string) fault {
		return fault{client: func(c lockspec.Client) lockspec.Client { return misacquiring{c, id, make(l)} }}
	}
}

// powers are what the engine's leases have.
type powers interface {
	lockspec.Lease
	lockspec.Renewer
	lockspec.Fenced
	lockspec.Notifier
	lockspec.HoldChecker
	lockspec.Sender
	lockspec.LossStamper
	lockspec.RenewalSource
}

// holding is a lease of which some methods are wrong.
type holding struct {
	powers
	release func(context.Context) error
	held    func(context.Context) error
}

func (h holding) Release(ctx context.Context) error {
	if h.release == nil {
		return h.powers.Release(ctx)
	}
	return h.release(ctx)
}

func (h holding) Held(ctx context.Context) error {
	if h.held == nil {
		return h.powers.Held(ctx)
	}
	return h.held(ctx)
}

// leaseBy makes every lease wrong.
func leaseBy(spoil func(l *lab, r lockspec.Request, right powers) holding) func(*lab, string) fault {
	return acquireBy(func(l *lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
		return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			got, err := next(ctx, r)
			if err != nil {
				return nil, err
			}
			return spoil(l, r, got.(powers)), nil
		}
	})
}

// backendBy breaks the backend of the case's keys. make is called once for
// each node.
func backendBy(make func(l *lab, right reference.Backend) spoiled) func(*lab, string) fault {
	return func(l *lab, id string) fault {
		return fault{backend: func(b reference.Backend) reference.Backend {
			wrong := make(l, b)
			wrong.Backend = b
			mine := func(c reference.Claim) bool { return strings.Contains(c.Key, "/"+id+"/") }
			s := spoiled{Backend: b}
			if wrong.attempt != nil {
				s.attempt = func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
					if mine(c) {
						return wrong.attempt(ctx, c)
					}
					return b.Attempt(ctx, c)
				}
			}
			if wrong.release != nil {
				s.release = func(ctx context.Context, c reference.Claim) error {
					if mine(c) {
						return wrong.release(ctx, c)
					}
					return b.Release(ctx, c)
				}
			}
			return s
		}}
	}
}

// polls tries for a key until the wait is over.
func polls(ctx context.Context, r lockspec.Request, try acquire, every time.Duration) (lockspec.Lease, error) {
	once := r
	once.Wait = 0
	end := time.Now().Add(r.Wait)
	for {
		l, err := try(ctx, once)
		if lockspec.OutcomeOf(err) != lockspec.Busy {
			return l, err
		}
		if r.Wait >= 0 && time.Now().After(end) {
			return nil, lockspec.ErrTimeout
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// chain is a queue in which each waits for the one before it. It is wrong in
// that one who gives up does not pass its turn on.
type chain struct {
	mu   sync.Mutex
	last map[string]chan struct{}
}

func (c *chain) join(key string) (before, mine chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]chan struct{}{}
	}
	before, mine = c.last[key], make(chan struct{})
	c.last[key] = mine
	return before, mine
}

// queued waits in a chain by that name, then polls.
func (c *chain) queued(ctx context.Context, name string, r lockspec.Request, try acquire, every time.Duration) (lockspec.Lease, error) {
	before, mine := c.join(name)
	if before != nil {
		select {
		case <-before:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r.Wait = lockspec.NoLimit
	l, err := polls(ctx, r, try, every)
	if err == nil {
		close(mine)
	}
	return l, err
}

// stack serves the last to come first.
type stack struct {
	mu  sync.Mutex
	top []int
	n   int
}

func (s *stack) wait(ctx context.Context, r lockspec.Request, try acquire) (lockspec.Lease, error) {
	s.mu.Lock()
	s.n++
	me := s.n
	s.top = append(s.top, me)
	s.mu.Unlock()
	r.Wait = 0
	for ctx.Err() == nil {
		s.mu.Lock()
		if s.top[len(s.top)-1] == me {
			if l, err := try(ctx, r); err == nil {
				s.top = s.top[:len(s.top)-1]
				s.mu.Unlock()
				return l, nil
			}
		}
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	return nil, ctx.Err()
}

// hub tells waiters of one process that a key is free.
type hub struct {
	every time.Duration // a waiter looks by itself; 0: never

	mu    sync.Mutex
	muted bool
	free  chan struct{}
}

func (h *hub) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.free == nil {
		h.free = make(chan struct{})
	}
	return h.free
}

func (h *hub) tell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.free != nil && !h.muted {
		close(h.free)
		h.free = nil
	}
}

func (h *hub) mute(muted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.muted = muted
}

func (h *hub) acquire(ctx context.Context, r lockspec.Request, try acquire) (lockspec.Lease, error) {
	waits := r.Wait != 0
	r.Wait = 0
	for {
		told := h.next()
		l, err := try(ctx, r)
		if err == nil {
			return holding{powers: l.(powers), release: func(ctx context.Context) error {
				defer h.tell()
				return l.Release(ctx)
			}}, nil
		}
		if !waits {
			return nil, err
		}
		var again <-chan time.Time
		if h.every > 0 {
			again = time.After(h.every)
		}
		select {
		case <-told:
		case <-again:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
