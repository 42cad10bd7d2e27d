package driver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// toy is a lock within one process. A key such as "lose?lost=20ms" tells what
// is to happen on it; the zero behaviour is that of a correct lock.
type toy struct {
	says lockspec.Description
	at   Target

	mu      sync.Mutex
	held    map[string]*toyLease
	token   int64
	clients int
	closed  int
	offset  time.Duration
	freed   chan struct{} // closed and made anew at each release
}

var keptStdout = os.Stdout // as a logger might, before Main

func toyDescription() lockspec.Description {
	return lockspec.Description{
		Name: "toy 1", Class: lockspec.Leased, Capacity: 3,
		Features: []lockspec.Feature{
			lockspec.Wait, lockspec.Renew, lockspec.AutoRenew, lockspec.Fencing, lockspec.LossSignal, lockspec.HoldCheck,
			lockspec.Cancel, lockspec.ClockSkew, lockspec.Permits,
		},
		Hazards: []lockspec.Hazard{lockspec.Pause},
		Bounds: lockspec.Bounds{
			LeaseMin: time.Millisecond, LeaseMax: time.Hour, Cancel: 200 * time.Millisecond, LossRatio: 0.5, KeyMax: 512,
			Takeover: 1500 * time.Microsecond, ClockRate: 0.1,
		},
	}
}

func openToy(_ context.Context, at Target) (Lock, error) {
	if at.URL == "toy:refused" {
		return nil, fmt.Errorf("%w: no such table", lockspec.ErrConfig)
	}
	t := &toy{says: toyDescription(), at: at, held: map[string]*toyLease{}, freed: make(chan struct{})}
	if at.URL == "toy:plain" {
		t.says = lockspec.Description{Name: "plain"}
	}
	return t, nil
}

func (t *toy) holder(key string) *toyLease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held[key]
}

func (t *toy) gaveUp() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

func (t *toy) Describe() lockspec.Description { return t.says }
func (t *toy) Close() error                   { return nil }

func (t *toy) Ping(context.Context) error {
	if t.at.URL == "toy:away" {
		return fmt.Errorf("%w: nobody there", lockspec.ErrUnavailable)
	}
	return nil
}

func (t *toy) SetClock(offset time.Duration, rate float64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rate != 1 {
		return fmt.Errorf("%w: rate %v", lockspec.ErrUnsupported, rate)
	}
	t.offset = offset
	return nil
}

func (t *toy) Client(process string) (lockspec.Client, error) {
	if process == "nobody" {
		return nil, fmt.Errorf("%w: no owner", lockspec.ErrConfig)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients++
	return &toyClient{t}, nil
}

type toyClient struct{ toy *toy }

func (c *toyClient) Close() error {
	c.toy.mu.Lock()
	defer c.toy.mu.Unlock()
	c.toy.closed++
	return nil
}

// behaviour is what a key asks for.
type behaviour struct{ url.Values }

func behaviourOf(key string) behaviour {
	_, query, _ := strings.Cut(key, "?")
	values, _ := url.ParseQuery(query)
	return behaviour{values}
}

func (b behaviour) after(name string) (time.Duration, bool) {
	d, err := time.ParseDuration(b.Get(name))
	return d, err == nil
}

func (c *toyClient) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	b := behaviourOf(r.Key)
	switch {
	case b.Has("panic"):
		panic("toy: as asked")
	case b.Has("print"):
		fmt.Println("hello, stdout")
		fmt.Fprintln(keptStdout, "hello, kept stdout")
	case b.Has("neither"):
		return nil, nil
	case b.Has("exit"):
		fmt.Fprintln(os.Stderr, "toy: leaving")
		os.Exit(3)
	case b.Has("harmless"):
		return nil, harmless{fmt.Errorf("%w: never sent", lockspec.ErrUnavailable)}
	}
	if d, ok := b.after("deaf"); ok { // to ctx
		time.Sleep(d)
	}
	for {
		lease, freed := c.try(r, b)
		switch {
		case lease != nil:
			return lease, nil
		case r.Wait == 0:
			return nil, lockspec.ErrBusy
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *toyClient) try(r lockspec.Request, b behaviour) (lockspec.Lease, chan struct{}) {
	t := c.toy
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[r.Key] != nil {
		return nil, t.freed
	}
	t.token++
	sent, _ := fakeclock.Monotonic()
	l := &toyLease{
		toy: t, key: r.Key, b: b, token: t.token, granted: max(r.Lease, time.Millisecond), sent: lockspec.Stamp(sent),
		lost: make(chan struct{}), renewals: make(chan lockspec.Renewal, 1024), doubts: make(chan bool, 8),
	}
	if d, ok := b.after("sent"); ok {
		l.sent += lockspec.Stamp(d)
	}
	if n, err := strconv.ParseInt(b.Get("token"), 10, 64); err == nil {
		l.token = n
	}
	t.held[r.Key] = l
	if d, ok := b.after("lost"); ok {
		time.AfterFunc(d, func() { l.lose(errors.New("expired")) })
	}
	if b.Has("plain") {
		return plainLease{l}, nil
	}
	if b.Has("session") {
		return sessionLease{l}, nil
	}
	return l, nil
}

// toyLease has every power.
type toyLease struct {
	toy   *toy
	key   string
	b     behaviour
	token int64
	sent  lockspec.Stamp

	mu       sync.Mutex
	granted  time.Duration
	over     bool
	cause    error
	lostAt   lockspec.Stamp
	lost     chan struct{}
	renewals chan lockspec.Renewal
	doubts   chan bool
}

// plainLease has no power at all.
type plainLease struct{ l *toyLease }

func (p plainLease) Granted() time.Duration            { return p.l.Granted() }
func (p plainLease) Release(ctx context.Context) error { return p.l.Release(ctx) }

// sessionLease is held by a session whose lease is shared.
type sessionLease struct{ *toyLease }

func (s sessionLease) Left() (time.Duration, bool) { return 0, true }
func (s sessionLease) Describe() lockspec.Description {
	d := toyDescription()
	d.Features, d.Bounds = []lockspec.Feature{lockspec.SessionLease}, lockspec.Bounds{Loss: time.Second}
	return d
}

func (l *toyLease) lose(cause error) {
	at, _ := fakeclock.Monotonic()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over, l.cause, l.lostAt = true, cause, lockspec.Stamp(at)
	if d, ok := l.b.after("stamp"); ok {
		l.lostAt += lockspec.Stamp(d)
	}
	l.free()
	close(l.lost)
}

func (l *toyLease) free() {
	l.toy.mu.Lock()
	defer l.toy.mu.Unlock()
	delete(l.toy.held, l.key)
	close(l.toy.freed)
	l.toy.freed = make(chan struct{})
}

func (l *toyLease) Granted() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

func (l *toyLease) Release(ctx context.Context) error {
	if d, ok := l.b.after("slowrelease"); ok {
		time.Sleep(d)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cause != nil:
		return lockspec.ErrLost
	case l.over:
		return lockspec.ErrNotHeld
	}
	l.over = true
	l.free()
	return nil
}

// Renew is also the toy's way to raise things: a lease of n ms raises n
// renewals, and of 1h a doubt, before it answers.
func (l *toyLease) Renew(ctx context.Context, lease time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return lockspec.ErrLost
	case l.b.Has("renewals"):
		sent, _ := fakeclock.Monotonic()
		for i := range lease.Milliseconds() {
			l.renewals <- lockspec.Renewal{Sent: lockspec.Stamp(sent), Lease: time.Duration(i+1) * time.Millisecond}
		}
	case l.b.Has("doubts"):
		l.doubts <- lease == time.Hour
	default:
		l.granted = lease
	}
	return nil
}

func (l *toyLease) Held(ctx context.Context) error {
	if l.b.Has("renewals") || l.b.Has("blind") {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return lockspec.ErrNotHeld
	}
	return nil
}

func (l *toyLease) Token() int64          { return l.token }
func (l *toyLease) Lost() <-chan struct{} { return l.lost }
func (l *toyLease) Sent() lockspec.Stamp  { return l.sent }
func (l *toyLease) Cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}
func (l *toyLease) LostAt() lockspec.Stamp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lostAt
}
func (l *toyLease) Renewals() <-chan lockspec.Renewal { return l.renewals }
func (l *toyLease) Doubts() <-chan bool               { return l.doubts }
