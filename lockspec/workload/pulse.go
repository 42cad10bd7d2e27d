package workload

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Pulse watches a service that the harness runs itself: a sign of life that
// takes longer than over is a time in which the service did not run. Without
// it, a lock would be blamed for leases that it could not renew at a service
// which this machine starved.
type Pulse struct {
	rec  *history.Recorder
	over time.Duration
	ask  func(context.Context) error
	turn chan struct{} // holds a value while the service is being asked
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	from int64 // the last sign of life, or up to when its silence is recorded
}

// NewPulse starts watching: ask returns once the service has answered. An error
// of it is no sign of life; one that matches ErrUnsupported says that the
// harness itself keeps the service silent, which is no stall. Stop ends it.
func NewPulse(rec *history.Recorder, every, over time.Duration, ask func(context.Context) error) *Pulse {
	ctx, stop := context.WithCancel(context.Background())
	p := &Pulse{rec: rec, over: over, ask: ask, turn: make(chan struct{}, 1), stop: stop, done: make(chan struct{}), from: rec.Now()}
	go p.loop(ctx, every)
	return p
}

func (p *Pulse) loop(ctx context.Context, every time.Duration) {
	defer close(p.done)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.Check(ctx)
		}
	}
}

// Check asks once more: what the service did up to the call is recorded when it
// returns. A verdict calls it before it counts; a silence that outlasts ctx is
// recorded as far as it goes.
func (p *Pulse) Check(ctx context.Context) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		p.silent()
		return
	}
	defer func() { <-p.turn }()
	sent := p.rec.Now()
	switch err := p.ask(ctx); {
	case err == nil:
		p.alive(sent)
	case errors.Is(err, lockspec.ErrUnsupported):
		p.alive(p.rec.Now())
	default:
		p.silent()
	}
}

// alive is a sign of life that was asked for then. The silence before it began
// at the last sign of life at the earliest.
func (p *Pulse) alive(sent int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.rec.Now()
	if now-sent > int64(p.over) {
		RecordStall(p.rec, checker.ServiceTarget, p.from, now)
	}
	p.from = now
}

// silent records a silence that lasts, and where it goes on it is recorded from
// here.
func (p *Pulse) silent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.rec.Now(); now-p.from > int64(p.over) {
		RecordStall(p.rec, checker.ServiceTarget, p.from, now)
		p.from = now
	}
}

// Stop ends the watch. What it has not recorded by then, it never will.
func (p *Pulse) Stop() {
	p.stop()
	<-p.done
}
