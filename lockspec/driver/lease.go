package driver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// lease is a tenure in a driver, as the harness sees it. It has every power but
// Fenced: a lease without tokens lacks that method.
type lease struct {
	conn    *conn
	id      string
	process string
	key     string

	granted atomic.Int64 // a time.Duration
	token   int64
	asked   lockspec.Stamp // when the request that took it was sent
	sent    lockspec.Stamp
	left    *Millis
	says    func() lockspec.Description

	lost     chan struct{}
	lostAt   lockspec.Stamp // before lost is closed, as cause
	cause    error
	renewals backlog[lockspec.Renewal]
	doubts   backlog[bool]
}

// fencedLease is a lease with a token.
type fencedLease struct{ *lease }

// Token is the tenure's fencing token.
func (l fencedLease) Token() int64 { return l.token }

// everyPower is what each lease can be asked for.
type everyPower interface {
	lockspec.Lease
	lockspec.Renewer
	lockspec.Notifier
	lockspec.HoldChecker
	lockspec.Sender
	lockspec.Remainder
	lockspec.LossStamper
	lockspec.RenewalSource
	lockspec.Doubter
	lockspec.Worker
	lockspec.Describer
}

var (
	_ everyPower      = (*lease)(nil)
	_ lockspec.Fenced = fencedLease{}
)

// fenced is the lease with the powers it has.
func (l *lease) fenced() lockspec.Lease {
	if l.token > 0 {
		return fencedLease{l}
	}
	return l
}

func (l *lease) do(ctx context.Context, q Request) (reply, error) {
	q.Process, q.Lease = l.process, l.id
	return l.conn.do(ctx, q)
}

func (l *lease) Granted() time.Duration { return time.Duration(l.granted.Load()) }

func (l *lease) Release(ctx context.Context) error {
	_, err := l.do(ctx, Request{Op: opRelease})
	if lockspec.OutcomeOf(err).Effect() != lockspec.Unknown {
		l.conn.retire(l)
	}
	return err
}

func (l *lease) Renew(ctx context.Context, lease time.Duration) error {
	got, err := l.do(ctx, Request{Op: opRenew, LeaseMS: Millis(lease)})
	if err == nil && got.LeaseMS > 0 {
		l.granted.Store(int64(got.LeaseMS))
	}
	return err
}

func (l *lease) Held(ctx context.Context) error {
	_, err := l.do(ctx, Request{Op: opHeld})
	return err
}

func (l *lease) Work(ctx context.Context, work time.Duration) (int64, error) {
	got, err := l.do(ctx, Request{Op: opWrite, WorkMS: Millis(work)})
	return int64(got.Token), err
}

func (l *lease) Lost() <-chan struct{} { return l.lost }

func (l *lease) Cause() error {
	select {
	case <-l.lost:
		return l.cause
	default:
		return nil
	}
}

func (l *lease) LostAt() lockspec.Stamp {
	select {
	case <-l.lost:
		return l.lostAt
	default:
		return 0
	}
}

func (l *lease) Sent() lockspec.Stamp { return l.sent }

func (l *lease) Left() (time.Duration, bool) {
	if l.left == nil {
		return 0, false
	}
	return time.Duration(*l.left), true
}

func (l *lease) Renewals() <-chan lockspec.Renewal { return l.renewals.channel() }
func (l *lease) Doubts() <-chan bool               { return l.doubts.channel() }
func (l *lease) Describe() lockspec.Description    { return l.says() }

// backlog is a channel that its sender never waits for: what does not fit is
// kept and follows as there is room.
type backlog[T any] struct {
	mu     sync.Mutex
	ch     chan T
	behind []T // non-empty while a goroutine follows up
}

const roomy = 64

func (b *backlog[T]) channel() chan T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.made()
}

func (b *backlog[T]) made() chan T {
	if b.ch == nil {
		b.ch = make(chan T, roomy)
	}
	return b.ch
}

// put adds a value; stop ends the goroutine that it may need.
func (b *backlog[T]) put(v T, stop <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.behind) == 0 {
		select {
		case b.made() <- v:
			return
		default:
		}
		go b.follow(stop)
	}
	b.behind = append(b.behind, v)
}

func (b *backlog[T]) follow(stop <-chan struct{}) {
	for {
		b.mu.Lock()
		if len(b.behind) == 0 {
			b.mu.Unlock()
			return
		}
		next := b.behind[0]
		b.mu.Unlock()
		select {
		case b.ch <- next:
		case <-stop:
			return
		}
		b.mu.Lock()
		b.behind = b.behind[1:]
		b.mu.Unlock()
	}
}
