package contract

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reports/result"
)

// Whoever reaches into the service says so in the history, before it is done
// and after it is over: else the checker would accuse the lock of what the
// harness did. The methods here are the only way for a case to the powers of
// its harness. One that the harness lacks ends the case as unsupported; one
// that fails, as error.

// power is a power of the harness; what says in words what it can do.
func power[T any](e *Env, what string) T {
	p, ok := e.harness.(T)
	if !ok {
		e.MustUnsupported("harness cannot %s", what)
	}
	return p
}

// MustRequests is how many requests reached the service. The operations are
// acquire, renew, release; empty words match all.
func (e *Env) MustRequests(ctx context.Context, op, key string) int {
	n, err := power[TrafficCounter](e, "count requests").Requests(ctx, op, key)
	e.mustWork(ctx, "count requests", err)
	return n
}

// MustInspect is who holds a key, as the service knows it.
func (e *Env) MustInspect(ctx context.Context, key string) []Holder {
	holders, err := power[Inspector](e, "look into the service").Inspect(ctx, key)
	e.mustWork(ctx, "inspect", err)
	return holders
}

// MustSeed gives a key to a foreign owner, whoever held it. For a holder that
// is an eviction.
func (e *Env) MustSeed(ctx context.Context, key, owner string, lease time.Duration) *Strike {
	p := power[Inspector](e, "put keys into the service")
	return e.mustStrike(ctx, evicted(key), func() error { return p.Seed(ctx, key, owner, lease) })
}

// MustEvict makes the service drop a key. Where nobody held it nothing was
// struck.
func (e *Env) MustEvict(ctx context.Context, key string) *Strike {
	p := power[Evicter](e, "evict keys")
	return e.mustStrike(ctx, evicted(key), func() error { return p.Evict(ctx, key) })
}

func evicted(key string) history.Event {
	return history.Event{Fault: "evict", Hazard: lockspec.Evict, Targets: []string{"key:" + key}}
}

// MustRestart restarts the service. The case must be serial.
func (e *Env) MustRestart(ctx context.Context) *Strike {
	p := power[Restarter](e, "restart the service")
	return e.mustStrike(ctx, history.Event{Fault: "restart", Hazard: lockspec.Restart, Targets: []string{"service"}},
		func() error { return p.Restart(ctx) })
}

// mustEmpty takes the service back to before its first use. The case must be
// serial.
func (e *Env) mustEmpty(ctx context.Context) {
	p := power[Emptier](e, "empty the service")
	e.mustStrike(ctx, history.Event{Fault: "flush", Hazard: lockspec.Evict, Targets: []string{"service"}},
		func() error { return p.Empty(ctx) })
}

// mustStrike does what is over as soon as it is done.
func (e *Env) mustStrike(ctx context.Context, f history.Event, do func() error) *Strike {
	s := e.begin(f)
	err := do()
	if err == nil {
		s.tell(history.Landed)
	}
	s.tell(history.End)
	e.mustWork(ctx, f.Fault, err)
	return s
}

// mustWork ends the case where a power failed: as inconclusive where its time
// was up or there was nothing to strike, else as an error of ours.
func (e *Env) mustWork(ctx context.Context, what string, err error) {
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, lockspec.ErrNotHeld):
		e.Inconclusive("%s: %v", what, err)
		e.stop()
	case errors.Is(err, lockspec.ErrUnsupported):
		e.MustUnsupported("harness cannot %s: %v", what, err)
	default:
		e.MustError(result.BlameOurs, "%s: %v", what, err)
	}
}

// Strike is a fault on the service that lasts until it is lifted, at the
// latest when the case ends.
type Strike struct {
	e     *Env
	event history.Event
	index int64 // of its start in the history
	lift  func(context.Context) error
	await func(context.Context) error
	mu    sync.Mutex
	told  map[history.Phase]bool
}

// MustStop makes the service answer nobody until the strike is lifted. The case
// must be serial.
func (e *Env) MustStop(ctx context.Context) *Strike {
	p := power[Stopper](e, "stop the service")
	s := e.begin(history.Event{Fault: "server-pause", Targets: []string{"service"}})
	s.lift = p.Continue
	e.mustWork(ctx, "stop the service", p.Stop(ctx))
	s.tell(history.Landed)
	return s
}

// MustInterfere stands between the clients and the service. For who holds the
// key, that is a partition.
func (e *Env) MustInterfere(ctx context.Context, what Interference, op, key string, times int) *Strike {
	p := power[Interferer](e, "stand between clients and the service")
	s := e.begin(history.Event{Fault: string(what), Hazard: lockspec.Partition, Targets: []string{"key:" + key}})
	struck, err := p.Interfere(ctx, what, op, key, times)
	if err != nil {
		s.tell(history.End)
		e.mustWork(ctx, string(what), err)
	}
	s.lift, s.await = struck.Lift, struck.Await
	return s
}

// MustAwait returns once the strike has struck; the case ends as inconclusive
// if it did not within the time.
func (s *Strike) MustAwait(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := s.await(ctx); err != nil {
		s.e.Inconclusive("no request came by to %s within %s", s.event.Fault, within)
		s.e.stop()
	}
	s.tell(history.Landed)
}

// MustLift ends the strike; it may be called again.
func (s *Strike) MustLift(ctx context.Context) { s.e.mustWork(ctx, "lift "+s.event.Fault, s.undo(ctx)) }

// begin records that a fault is about to strike, and makes sure that it ends.
func (e *Env) begin(f history.Event) *Strike {
	top := e.top()
	top.mu.Lock()
	defer top.mu.Unlock()
	f.Type, f.Op, f.Origin = history.Happen, history.Fault, history.Injected
	f.ID = fmt.Sprintf("%s-s%d", e.Case.ID, len(top.strikes)+1)
	s := &Strike{e: e, event: f, told: map[history.Phase]bool{}}
	top.strikes = append(top.strikes, s)
	s.index = s.tell(history.Start)
	return s
}

// tell records a phase, once.
func (s *Strike) tell(p history.Phase) (index int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told[p] {
		return 0
	}
	s.told[p] = true
	next := s.event
	next.Phase = p
	return s.e.Scene.Record(&next)
}

func (s *Strike) was(p history.Phase) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told[p]
}

// undo ends what lasts. A strike that nobody awaited may have struck all the
// same: whether it did is asked once more.
func (s *Strike) undo(ctx context.Context) error {
	if s.lift == nil || s.was(history.End) {
		return nil
	}
	if s.await != nil && !s.was(history.Landed) {
		asked, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if s.await(asked) == nil {
			s.tell(history.Landed)
		}
	}
	if err := s.lift(ctx); err != nil {
		return err
	}
	s.tell(history.End)
	return nil
}

// heal ends every strike of the case that still lasts.
func (e *Env) heal() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, s := range e.strikes {
		if err := s.undo(ctx); err != nil {
			e.Note(result.Error, fmt.Sprintf("%s was not lifted: %v", s.event.Fault, err))
		}
	}
}
