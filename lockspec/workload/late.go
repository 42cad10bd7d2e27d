package workload

import (
	"context"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// late is the answer to one call that its caller may give up. It is recorded
// after the call's return, however the two race: before it, it would answer
// nothing.
type late struct {
	process *Process
	call    history.Event // its invocation

	mu    sync.Mutex
	of    int64
	given bool // up: the call returned, and nobody knows with what effect
	came  *lockspec.Late
}

// expect lets the client tell what a call was answered after it returned.
func (p *Process) expect(ctx context.Context, call history.Event, of int64) (context.Context, *late) {
	l := &late{process: p, call: call, of: of}
	return lockspec.WithLate(ctx, l.tell), l
}

// tell is called by the client.
func (l *late) tell(r lockspec.Late) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.given {
		l.process.answeredLate(l, r)
		return
	}
	l.came = &r
}

// gaveUp says that the call's return, of unknown effect, is recorded.
func (l *late) gaveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given = true
	if l.came != nil {
		l.process.answeredLate(l, *l.came)
	}
}

// answeredLate records the answer, and gives back at once what it granted. A
// process that was closed records nothing more: its case may have been judged.
func (p *Process) answeredLate(l *late, r lockspec.Late) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		if r.Lease != nil {
			go func() { _ = handBack(r.Lease.Release) }()
		}
		return
	}
	e := l.call
	e.Type, e.Op, e.Of, e.Outcome = history.Happen, history.Late, l.of, lockspec.OutcomeOf(r.Err)
	e.Lease, e.Token = r.Granted, r.Token
	if r.Lease == nil {
		p.scene.Record(&e)
		return
	}
	t := p.tenure(&e, r.Lease)
	t.under = e.Process
	t.granted = p.scene.Record(&e)
	p.lates.Go(func() { _ = handBack(t.Release) })
}

// A driver that cannot be told to give back what it was granted is about to be
// ended, or its lease to run out.
const handBackLimit = 5 * time.Second

func handBack(release func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), handBackLimit)
	defer cancel()
	return release(ctx)
}
