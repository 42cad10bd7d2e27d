package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Tenure is a held lease, recorded. It is safe for concurrent use.
//
// Signals of a lease (loss, renewals, doubt) are recorded before any reply
// that the lock computed after them: a driver delivers them in that order, and
// settle is called before each reply is recorded. Without that, a reply could
// seem to say "held" after a loss that was signalled in time.
type Tenure struct {
	ID, Key  string
	Lease    time.Duration // granted
	Token    int64
	HasToken bool
	Asked    time.Time // when its acquisition was called

	process *Process
	lease   lockspec.Lease
	granted int64  // index
	under   string // the process name that it was granted to; empty: the present one

	mu      sync.Mutex
	lost    bool
	over    chan struct{} // closed by Stop
	once    sync.Once
	watcher sync.WaitGroup
}

// Process is who holds it.
func (t *Tenure) Process() *Process { return t.process }

// Granted is the index of the acquisition's return in the history.
func (t *Tenure) Granted() int64 { return t.granted }

// Handle is the client's own lease, for cases that ask for a power by name.
func (t *Tenure) Handle() lockspec.Lease { return t.lease }

// Lost is closed once loss is signalled; nil where the lease cannot signal it.
func (t *Tenure) Lost() <-chan struct{} {
	if n, ok := t.lease.(lockspec.Notifier); ok {
		return n.Lost()
	}
	return nil
}

// Reason is what the lock says of why the tenure was lost; empty where it was
// not, or where the lock says nothing.
func (t *Tenure) Reason() string {
	n, ok := t.lease.(lockspec.Notifier)
	if !ok || n.Cause() == nil {
		return ""
	}
	if r := reason(n.Cause()); r != lockspec.ErrLost.Error() {
		return r
	}
	return ""
}

func (t *Tenure) checkToken() {
	if t.HasToken && t.Token <= 0 {
		t.process.scene.Find(checker.Finding{Kind: checker.Contract, Rule: "token-not-positive", Level: checker.Service,
			Key: t.Key, Tenures: []string{t.ID}, Events: []int64{t.granted},
			Message: fmt.Sprintf("%s was granted the fencing token %d; a token is greater than 0, a lock without tokens offers none", t.ID, t.Token)})
	}
}

func (t *Tenure) event(op history.Op) history.Event {
	name := t.under
	if name == "" {
		name = t.process.Name()
	}
	return history.Event{Process: name, Owner: t.process.Owner, Node: t.process.Node, Op: op, Key: t.Key, Tenure: t.ID}
}

// do records one operation around its call.
func (t *Tenure) do(ctx context.Context, op history.Op, ask time.Duration, call func(context.Context, *history.Event) error) error {
	e := t.event(op)
	invoke := e
	invoke.Type, invoke.Ask = history.Invoke, ask
	ctx, late := t.process.expect(ctx, e, t.process.scene.Record(&invoke))
	err := call(ctx, &e)
	t.record(func() {
		if err != nil {
			t.process.refused(&e, late, err)
			return
		}
		e.Type = history.OK
		t.process.scene.Record(&e)
	})
	return err
}

// record records a reply, after every signal that the lock raised before it.
func (t *Tenure) record(reply func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle()
	reply()
}

func (t *Tenure) bounded(ctx context.Context, op history.Op, call func(context.Context) error) error {
	return t.process.bounded(ctx, op, t.Lease, call)
}

// Renew asks for the lease again; 0 asks for the granted one.
func (t *Tenure) Renew(ctx context.Context, lease time.Duration) error {
	r, ok := t.lease.(lockspec.Renewer)
	if !ok {
		return lockspec.ErrUnsupported
	}
	if lease == 0 {
		lease = t.Lease
	}
	return t.do(ctx, history.Renew, lease, func(ctx context.Context, e *history.Event) error {
		err := t.bounded(ctx, history.Renew, func(ctx context.Context) error { return r.Renew(ctx, lease) })
		e.Lease = lease
		if g := t.lease.Granted(); g > 0 {
			e.Lease = g
		}
		return err
	})
}

// Held asks whether the tenure stands.
func (t *Tenure) Held(ctx context.Context) error {
	h, ok := t.lease.(lockspec.HoldChecker)
	if !ok {
		return lockspec.ErrUnsupported
	}
	return t.do(ctx, history.Held, 0, func(ctx context.Context, _ *history.Event) error { return t.bounded(ctx, history.Held, h.Held) })
}

// Release ends the tenure.
func (t *Tenure) Release(ctx context.Context) error {
	return t.do(ctx, history.Release, 0, func(ctx context.Context, _ *history.Event) error {
		return t.bounded(ctx, history.Release, t.lease.Release)
	})
}

// Write is one read-modify-write of the resource, as an application does it:
// both registers are read, the lock is checked, work goes by, and both
// registers are written without a second check.
func (t *Tenure) Write(ctx context.Context, work time.Duration) error {
	return t.write(ctx, work, nil)
}

// WriteWith calls begun once the write was invoked and both registers were
// read: from then on the write is under way.
func (t *Tenure) WriteWith(ctx context.Context, work time.Duration, begun func()) error {
	return t.write(ctx, work, begun)
}

func (t *Tenure) write(ctx context.Context, work time.Duration, begun func()) error {
	var read versions
	err := t.do(ctx, history.Write, 0, func(ctx context.Context, e *history.Event) error {
		read = t.process.scene.Resource.read(t)
		if begun != nil {
			begun()
		}
		token, err := t.work(ctx, work)
		if err == nil {
			e.Token = token
			t.compareToken(token)
		}
		return err
	})
	if err == nil {
		t.process.scene.Resource.write(t, read)
	}
	return err
}

func (t *Tenure) compareToken(token int64) {
	if t.HasToken && token != t.Token {
		t.process.scene.Find(checker.Finding{Kind: checker.Fencing, Rule: "token-changed", Level: checker.Service,
			Key: t.Key, Tenures: []string{t.ID}, Events: []int64{t.granted},
			Message: fmt.Sprintf("%s was granted token %d and wrote with token %d", t.ID, t.Token, token)})
	}
}

// work lets the client's own process check and work; in the test's own process
// it does both itself.
func (t *Tenure) work(ctx context.Context, work time.Duration) (int64, error) {
	if w, ok := t.lease.(lockspec.Worker); ok {
		return w.Work(ctx, work)
	}
	if h, ok := t.lease.(lockspec.HoldChecker); ok {
		if err := h.Held(ctx); err != nil && !errors.Is(err, lockspec.ErrUnsupported) {
			return 0, err
		}
	}
	return t.Token, Sleep(ctx, work)
}

// Waker is a lease that says when to look at what it has raised: a value is in
// the channel whenever a renewal may be new.
type Waker interface {
	Woken() <-chan struct{}
}

// watch records signals as they come, until Stop.
//
// It never takes a renewal out of the channel but with t.mu held: one that was
// taken and not yet recorded would be overtaken by a reply that came after it.
// So it looks when it is woken or, where nobody wakes it, every twentieth of
// the lease.
func (t *Tenure) watch() {
	_, renews := t.lease.(lockspec.RenewalSource)
	_, doubts := t.lease.(lockspec.Doubter)
	lost := t.Lost()
	if lost == nil && !renews && !doubts {
		return
	}
	t.watcher.Go(func() {
		var woken <-chan struct{}
		var tick <-chan time.Time
		if w, ok := t.lease.(Waker); ok {
			woken = w.Woken()
		} else {
			ticker := time.NewTicker(max(t.Lease/20, time.Millisecond))
			defer ticker.Stop()
			tick = ticker.C
		}
		for {
			select {
			case <-woken:
				t.look()
			case <-tick:
				t.look()
			case <-lost:
				t.look()
				return
			case <-t.over:
				t.look()
				return
			}
		}
	})
}

func (t *Tenure) look() { t.record(func() {}) }

// Stop ends the recording of signals; nothing is recorded after it returned. A
// tenure that was released signals nothing more; one that was abandoned goes
// on until the case ends.
func (t *Tenure) Stop() {
	t.once.Do(func() { close(t.over) })
	t.watcher.Wait()
}

// settle records, with t.mu held, every signal that has arrived.
func (t *Tenure) settle() {
	if s, ok := t.lease.(lockspec.RenewalSource); ok {
		for more := true; more; {
			select {
			case r := <-s.Renewals():
				t.renewed(r)
			default:
				more = false
			}
		}
	}
	t.waver()
	select {
	case <-t.Lost():
		t.recordLoss()
	default:
	}
}

// waver records that the connection came into doubt, or out of it. A connection
// is in doubt before it is given up: a loss is recorded after both.
func (t *Tenure) waver() {
	d, ok := t.lease.(lockspec.Doubter)
	for ok {
		select {
		case doubt := <-d.Doubts():
			e := t.event(history.Sure)
			if doubt {
				e.Op = history.Doubt
			}
			e.Type = history.Happen
			t.process.scene.Record(&e)
		default:
			return
		}
	}
}

func (t *Tenure) renewed(r lockspec.Renewal) {
	e := t.event(history.Renewed)
	e.Type, e.Lease, e.Sent = history.Happen, r.Lease, t.process.scene.run.Recorder.At(r.Sent)
	t.process.scene.Record(&e)
}

func (t *Tenure) recordLoss() {
	if t.lost {
		return
	}
	t.lost = true
	e := t.event(history.Lost)
	e.Type = history.Happen
	if n, ok := t.lease.(lockspec.Notifier); ok && n.Cause() != nil {
		e.Reason = reason(n.Cause())
	}
	if s, ok := t.lease.(lockspec.LossStamper); ok {
		e.Driver = t.process.scene.run.Recorder.At(s.LostAt())
	}
	t.process.scene.Record(&e)
}

// reason is what the cause of a loss says of itself, else its text.
func reason(err error) string {
	var r interface{ Reason() string }
	if errors.As(err, &r) {
		return r.Reason()
	}
	return err.Error()
}

// Sleep waits, or less where the context ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
