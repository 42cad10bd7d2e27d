package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Process is a driven client. An operation whose outcome is unknown retires
// the process's name in the history: a new one takes over, of the same owner,
// because nobody can say what the old one still has open.
type Process struct {
	Node, Owner string

	scene  *Scene
	client lockspec.Client
	watch  Watch
	lates  sync.WaitGroup // releases of what was granted too late
	mu     sync.Mutex
	name   string
	over   bool // nothing more is recorded of it
}

// Watch is called before each call of an operation, and what it returns after
// the call if it outlived its bound.
type Watch func(op history.Op) (overdue func())

// A driver bounds every call by its wait and 5 s; what takes longer by this
// than its wait and its lease is overdue.
const grace = 7 * time.Second

// Patience is how long to wait for a call about a tenure of such a lease. It is
// longer than the call's bound: who gives a call up earlier never learns that it
// hangs.
func Patience(lease time.Duration) time.Duration { return lease + grace + time.Second }

// bounded gives a call its bound, for who watches the process: without a watch
// nobody could say what was overdue.
func (p *Process) bounded(ctx context.Context, op history.Op, bound time.Duration, call func(context.Context) error) error {
	if bound < 0 || p.watch == nil {
		return call(ctx)
	}
	overdue := p.watch(op)
	bounded, cancel := context.WithTimeout(ctx, bound+grace)
	defer cancel()
	err := call(bounded)
	if bounded.Err() != nil && ctx.Err() == nil {
		overdue()
	}
	return err
}

func (p *Process) rename() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name = fmt.Sprintf("p%d", p.scene.run.processes.Add(1))
}

// Name is the process's present name in the history.
func (p *Process) Name() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name
}

// Close gives the client up, once what it was granted too late is given back.
func (p *Process) Close() error {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.lates.Wait()
	return p.client.Close()
}

// Acquire takes the lock and records it. The error is the client's own.
func (p *Process) Acquire(ctx context.Context, r lockspec.Request) (*Tenure, error) {
	name := p.Name()
	e := history.Event{Process: name, Owner: p.Owner, Node: p.Node, Op: history.Acquire, Key: r.Key,
		Mode: r.Mode, Count: r.Count}
	invoke := e
	invoke.Type, invoke.Ask, invoke.Wait, invoke.Renewal = history.Invoke, r.Lease, r.Wait, r.Renew
	ctx, late := p.expect(ctx, e, p.scene.Record(&invoke))
	asked := time.Now()
	bound := r.Wait + r.Lease
	if r.Wait == lockspec.NoLimit {
		bound = lockspec.NoLimit
	}
	var l lockspec.Lease
	err := p.bounded(ctx, history.Acquire, bound, func(ctx context.Context) (err error) {
		l, err = p.client.Acquire(ctx, r)
		return err
	})
	if (l == nil) == (err == nil) {
		err = p.neither(name, r.Key, l, err)
	}
	if err != nil {
		p.refused(&e, late, err)
		return nil, err
	}
	t := p.granted(&e, l)
	t.Asked = asked
	return t, nil
}

// neither is a client that answered with both a lease and an error, or with
// none of them. The lease, if there is one, is given back.
func (p *Process) neither(name, key string, l lockspec.Lease, err error) error {
	what := "neither a lease nor an error"
	if l != nil {
		what = fmt.Sprintf("a lease together with the error %q", err)
		_ = l.Release(context.Background())
	}
	p.scene.Find(checker.Finding{Kind: checker.Contract, Rule: "nil-nil", Level: checker.Service, Key: key,
		Message: fmt.Sprintf("acquire of %s returned %s", name, what)})
	return fmt.Errorf("acquire returned %s", what)
}

// refused records the return of an operation that failed, and retires the name
// where its effect is unknown; then its answer may still come.
func (p *Process) refused(e *history.Event, late *late, err error) {
	e.Error = lockspec.OutcomeOf(err)
	e.Type = history.ReturnType(e.Error)
	if e.Error == lockspec.Failed || e.Error == lockspec.Config {
		e.Message = err.Error()
	}
	if e.Type == history.Info && lockspec.NoEffect(err) {
		e.Type, e.Effect = history.Fail, "none"
	}
	unknown := e.Type == history.Info
	name := e.Process
	p.scene.Record(e)
	if unknown && p.Name() == name {
		p.rename()
	}
	if unknown {
		late.gaveUp()
	}
}

func (p *Process) granted(e *history.Event, l lockspec.Lease) *Tenure {
	e.Type = history.OK
	t := p.tenure(e, l)
	t.granted = p.scene.Record(e)
	t.checkToken()
	t.watch()
	return t
}

// tenure is what the event says was granted; it completes the event.
func (p *Process) tenure(e *history.Event, l lockspec.Lease) *Tenure {
	t := &Tenure{ID: fmt.Sprintf("t%d", p.scene.run.tenures.Add(1)), Key: e.Key, Lease: l.Granted(),
		process: p, lease: l, over: make(chan struct{})}
	if f, ok := l.(lockspec.Fenced); ok {
		t.Token, t.HasToken = f.Token(), true
	}
	e.Tenure, e.Lease, e.Token = t.ID, t.Lease, t.Token
	if s, ok := l.(lockspec.Sender); ok {
		e.Sent = p.scene.run.Recorder.At(s.Sent())
	}
	if l, ok := l.(lockspec.Remainder); ok {
		e.Left, _ = l.Left()
	}
	return t
}
