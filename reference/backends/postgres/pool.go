package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
)

// pool are the sessions: those that hold a lock or try to, and those that are
// kept for the next attempt. Only one that is known to hold nothing is kept.
type pool struct {
	dial  func(ctx context.Context) (*session, error)
	ended func(*session)
	slots chan struct{} // a value for each session in use
	tries chan struct{} // a value for each attempt under way

	mu     sync.Mutex
	idle   []idle // the one used last is at the end
	closed bool
	all    map[*session]bool
	ending sync.WaitGroup
}

type idle struct {
	*session
	since time.Time
}

const (
	// idleMost is how many sessions are kept for the next attempts.
	idleMost = 16
	// idleLimit is how long one is kept that nobody needs.
	idleLimit = time.Minute
	// slotLimit is how long an attempt waits for a session of others: attempts
	// are short, but those who hold a lock may wait for just this one.
	slotLimit = 250 * time.Millisecond
	// triesMost is how many attempts are made at once. A connection costs a server
	// a process, an attempt on one that is there costs it next to nothing: a crowd
	// shares a few, one after the other.
	triesMost = 8
)

func newPool(size int, dial func(ctx context.Context) (*session, error), ended func(*session)) *pool {
	return &pool{dial: dial, ended: ended, slots: make(chan struct{}, size), tries: make(chan struct{}, triesMost), all: map[*session]bool{}}
}

// try gives leave for an attempt; the function ends it.
func (p *pool) try(ctx context.Context) (end func(), err error) {
	select {
	case p.tries <- struct{}{}:
		return func() { <-p.tries }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w: %w", lockspec.ErrUnavailable, reference.ErrNotSent, ctx.Err())
	}
}

// take gives a session, until put or the session's end.
func (p *pool) take(ctx context.Context) (*session, error) {
	if err := p.slot(ctx); err != nil {
		return nil, err
	}
	if s := p.kept(); s != nil {
		return s, nil
	}
	s, err := p.dial(ctx)
	if err == nil && !p.add(s) {
		s.close(nil)
		err = errPoolClosed
	}
	if err != nil {
		<-p.slots
		return nil, err
	}
	return s, nil
}

var errPoolClosed = fmt.Errorf("%w: %w: the way to the service was closed", lockspec.ErrUnavailable, reference.ErrNotSent)

func (p *pool) slot(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	limit := time.NewTimer(slotLimit)
	defer limit.Stop()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w: %w", lockspec.ErrUnavailable, reference.ErrNotSent, ctx.Err())
	case <-limit.C:
		return refusal.New(lockspec.ErrUnavailable, "pool_size", fmt.Sprintf("all %d connections are in use, each by a lock that is held or an attempt", cap(p.slots)), nil)
	}
}

// kept is a session of an earlier attempt; nil: there is none.
func (p *pool) kept() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		s := p.idle[n-1].session
		p.idle = p.idle[:n-1]
		if s.alive() {
			return s
		}
	}
	return nil
}

// add makes the session one of the pool's; false: the pool is closed.
func (p *pool) add(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.all[s] = true
	p.ending.Go(func() {
		s.serve()
		p.mu.Lock()
		delete(p.all, s)
		p.mu.Unlock()
		p.ended(s)
	})
	return true
}

// put gives a session back that holds nothing.
func (p *pool) put(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	<-p.slots
	p.idle = append(p.idle, idle{s, time.Now()})
	for len(p.idle) > idleMost || time.Since(p.idle[0].since) > idleLimit {
		p.idle[0].close(nil)
		p.idle = p.idle[1:]
	}
}

// drop ends a session that may hold something.
func (p *pool) drop(s *session, why error) {
	s.close(why)
	<-p.slots
}

// close ends every session and waits until they have ended.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for s := range p.all {
		s.close(nil)
	}
	p.mu.Unlock()
	p.ending.Wait()
}
