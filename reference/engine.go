package reference

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// KeyMax is the longest key in characters.
const KeyMax = 512

// Engine takes locks of one [Backend]. It waits, renews, notices loss, cleans
// up after lost replies, and releases. It is safe for concurrent use. Locks
// are not reentrant: a key that this engine holds is busy.
type Engine struct {
	backend Backend
	prompt  bool // see Prompt
	opts    Options
	clock   fakeclock.Clock
	timing  Timing
	desc    lockspec.Description
	prefix  string // of every key

	closing    chan struct{}
	background sync.WaitGroup // acquisitions, and releases that nobody waits for

	mu     sync.Mutex
	closed bool
	queues shrinking[string, *queue]
	leases shrinking[*Lease, struct{}]
}

// New makes an engine. An error matches lockspec.ErrConfig and lists all that
// is wrong. Nothing is asked of the service yet.
func New(b Backend, opts *Options) (*Engine, error) {
	o, err := opts.withDefaults(b)
	if err != nil {
		return nil, err
	}
	orDefault(&o.Observer, Observer(noObserver{}))
	_, prompt := b.(Prompt)
	return &Engine{
		backend: b, prompt: prompt, opts: o, clock: o.Clock, timing: b.Timing(), desc: b.Describe(),
		prefix: prefix(o.Namespace), closing: make(chan struct{}),
	}, nil
}

// TryAcquire takes key with exactly one attempt. ErrBusy: it is held, by
// another or by this engine; ErrUnavailable: the service gave no usable
// answer. A cancelled call matches its context's error and returns at once;
// whatever the attempt still wins is released behind its back.
//
// ctx bounds the acquisition only. Its values are visible in the lease's
// context, its end is not.
func (e *Engine) TryAcquire(ctx context.Context, key string, opts *AcquireOptions) (*Lease, error) {
	return e.acquire(ctx, "try-acquire", key, opts, (*acquisition).once)
}

// Acquire takes key, waiting for it as long as opts.Wait and ctx allow.
// Callers of one engine that wait for one key are served in the order of
// their calls, and only the first of them asks the service.
//
// ErrTimeout: opts.Wait has elapsed and the service's last word was "held".
// ErrUnavailable: it has elapsed, and the last attempt, or every one, had no
// answer. What no retry can fix (ErrConfig, ErrInvalidKey, ErrUnsupported, a
// panic of the backend) ends the wait at once.
//
// An attempt that is under way when opts.Wait elapses is let finish.
func (e *Engine) Acquire(ctx context.Context, key string, opts *AcquireOptions) (*Lease, error) {
	return e.acquire(ctx, "acquire", key, opts, (*acquisition).wait)
}

// Do runs f while key is held, as Acquire takes it. f's context ends with ctx
// and with the lease. The lock is released when f returns, panics or calls
// runtime.Goexit.
//
// The error joins f's and the release's; a lock that was lost while f ran is
// an error that matches ErrLost, because part of the work was unprotected.
func (e *Engine) Do(ctx context.Context, key string, f func(ctx context.Context, l *Lease) error, opts *AcquireOptions) (err error) {
	l, err := e.Acquire(ctx, key, opts)
	if err != nil {
		return err
	}
	bound, unbind := l.Bind(ctx)
	defer func() {
		unbind()
		err = join(err, l.Release(ctx))
	}()
	return f(bound, l)
}

// Close ends every wait with ErrClosed, releases every lease, waits for
// releases under way, and closes the backend. It takes no longer than about
// twice Options.ReleaseTimeout. Acquiring afterwards answers ErrClosed.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	close(e.closing)
	var held []*Lease
	for l := range e.leases.m {
		held = append(held, l)
	}
	e.mu.Unlock()

	for _, l := range held {
		e.background.Go(func() { l.Release(context.Background()) })
	}
	e.settle()
	return e.backend.Close()
}

// settle waits for what goes on in the background, but not for ever.
func (e *Engine) settle() {
	done := make(chan struct{})
	go func() { e.background.Wait(); close(done) }()
	t := e.clock.NewTimer(2 * e.opts.ReleaseTimeout)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// enter notes an acquisition that begins, unless the engine is closed; Close
// waits for its leave.
func (e *Engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.background.Add(1)
	}
	return !e.closed
}

func (e *Engine) leave() { e.background.Done() }

// register notes a lease, unless the engine is closed.
func (e *Engine) register(l *Lease) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.leases.put(l, struct{}{})
	return true
}

func (e *Engine) forget(l *Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leases.remove(l)
}

// reading is the time, and its stamp for the client's user; who takes leases of
// the engine itself need not pay for that one.
func (e *Engine) reading(stamped bool) (now time.Time, stamp int64) {
	if !stamped {
		return e.clock.Now(), 0
	}
	return fakeclock.Reading(e.clock)
}

// usable is the part of a lease that a holder may use.
func (e *Engine) usable(lease time.Duration) time.Duration {
	if !e.timing.Expires() {
		return e.span(lease)
	}
	return lease - time.Duration(e.opts.Margin*float64(lease))
}

// span is the time in which a renewal must come: the lease, or three probes.
func (e *Engine) span(lease time.Duration) time.Duration {
	if !e.timing.Expires() {
		return 3 * e.timing.probe
	}
	return lease
}

// attemptTimeout bounds one call of the backend: an answer that comes when the
// lease is used up helps nobody.
func (e *Engine) attemptTimeout(lease time.Duration) time.Duration {
	if !e.timing.Expires() {
		return e.opts.AttemptTimeout
	}
	return min(e.opts.AttemptTimeout, e.usable(lease))
}

func (e *Engine) random() uint64 {
	if e.opts.Rand == nil {
		return rand.Uint64()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opts.Rand.Uint64()
}

func (e *Engine) newOwner() string {
	var name [16]byte
	binary.BigEndian.PutUint64(name[:8], e.random())
	binary.BigEndian.PutUint64(name[8:], e.random())
	return hex.EncodeToString(name[:])
}

// jitter is equal jitter: evenly distributed over [d/2, d].
func (e *Engine) jitter(d time.Duration) time.Duration {
	half := d / 2
	return d - time.Duration(e.random()%uint64(half+1))
}

// prefix begins the backend's name of every key of a namespace. It has one
// colon, at its end, so no two namespaces share a name: without the escapes
// "a" + "b:c" and "a:b" + "c" would be the same key.
func prefix(namespace string) string {
	if namespace == "" {
		return ""
	}
	return strings.NewReplacer("%", "%25", ":", "%3A").Replace(namespace) + ":"
}

func validKey(key string) error {
	if n := utf8.RuneCountInString(key); n < 1 || n > KeyMax {
		return fmt.Errorf("%w: %d characters, not 1 to %d", lockspec.ErrInvalidKey, n, KeyMax)
	}
	return nil
}

// call runs f, which asks the backend, and makes its panic an error. It
// returns when ctx ends even if f does not, unless the backend is prompt.
func call[T any](ctx context.Context, prompt bool, f func() (T, error)) (T, error) {
	if prompt {
		r := guarded(f)
		return r.value, r.err
	}
	done := make(chan reply[T], 1)
	go func() { done <- guarded(f) }()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

type reply[T any] struct {
	value T
	err   error
}

// guarded runs f; a panic becomes an error.
func guarded[T any](f func() (T, error)) (r reply[T]) {
	defer func() {
		if v := recover(); v != nil {
			r.err = &PanicError{v, debug.Stack()}
		}
	}()
	r.value, r.err = f()
	return r
}

// shrinking is a map that gives its memory back when it is empty after having
// been large.
type shrinking[K comparable, V any] struct {
	m    map[K]V
	peak int
}

func (s *shrinking[K, V]) put(k K, v V) {
	if s.m == nil {
		s.m = make(map[K]V)
	}
	s.m[k] = v
	s.peak = max(s.peak, len(s.m))
}

func (s *shrinking[K, V]) remove(k K) {
	delete(s.m, k)
	if len(s.m) == 0 && s.peak > 64 {
		s.m, s.peak = nil, 0
	}
}
