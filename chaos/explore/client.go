package explore

import (
	"context"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// client is a node's client as the harness has it: through a pipe. A call
// reaches the node a little after it was made, waits while the node is stopped,
// and is answered a little later; what a node tells arrives in the order in
// which it was told. So the harness stamps as a real one does.
type client struct {
	n     *Node
	inner lockspec.Client
}

// Between the harness and a node.
const pipeLeast, pipeMost = 5 * time.Microsecond, 150 * time.Microsecond

// enter brings a call to the node. Its end must be called when the node is done
// with it.
func (n *Node) enter(ctx context.Context) (_ context.Context, end func(), err error) {
	sleep(n.pipe())
	n.runs.pass(nil, n.gone)
	if n.isGone() {
		return nil, nil, errDied
	}
	if !n.mortal {
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.opened++
	id := n.opened
	if n.calls == nil {
		n.calls = map[int]context.CancelFunc{}
	}
	n.calls[id] = cancel
	return ctx, func() {
		n.w.mu.Lock()
		delete(n.calls, id)
		n.w.mu.Unlock()
		cancel()
	}, nil
}

// leave brings an answer back to the harness, after what the node has to tell
// first.
func (n *Node) leave() error {
	n.runs.pass(nil, n.gone)
	if n.isGone() {
		return errDied
	}
	sleep(n.tell())
	return nil
}

// sleep waits, and costs nothing where there is nothing to wait for.
func sleep(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

func (n *Node) pipe() time.Duration {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.apart(n.w.pipe())
}

// pipe is how long something takes between the harness and a node: half of the
// time nothing that a clock would show, which spares the bubble a step.
func (w *World) pipe() time.Duration {
	if w.rng.IntN(2) == 0 {
		return 0
	}
	return w.draw(pipeLeast, pipeMost)
}

// tell gives a place in the stream of what the node tells: how long until it
// arrives.
func (n *Node) tell() time.Duration {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.signal()
	return n.slot()
}

func (n *Node) slot() time.Duration {
	now := n.w.now()
	d := n.w.apart(max(n.out+1-now, n.w.pipe()))
	n.out = now + d
	return d
}

// Acquire implements lockspec.Client.
func (c *client) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	inside, end, err := c.n.enter(ctx)
	if err != nil {
		return nil, err
	}
	c.n.queues.Add(queued(r))
	inner, err := c.inner.Acquire(inside, r)
	c.n.queues.Add(-queued(r))
	end()
	var l lockspec.Lease
	if inner != nil {
		l = c.n.adopt(inner)
	}
	if told := c.n.leave(); told != nil {
		return nil, told
	}
	return l, err
}

func queued(r lockspec.Request) int32 {
	if r.Wait == 0 {
		return 0
	}
	return 1
}

// Close implements lockspec.Client.
func (c *client) Close() error { return c.inner.Close() }

// Describe implements lockspec.Describer.
func (c *client) Describe() lockspec.Description {
	if d, ok := c.inner.(lockspec.Describer); ok {
		return d.Describe()
	}
	return lockspec.Description{}
}

// lease is a tenure as the harness has it.
type lease struct {
	n     *Node
	inner lockspec.Lease

	lost     chan struct{}
	renewals chan lockspec.Renewal
	woken    chan struct{} // a renewal is new
	over     chan struct{} // released: it tells nothing more

	// Under the world's mutex.
	told  bool // the loss is on its way
	ended bool
	at    lockspec.Stamp
	cause error
}

type fencedLease struct {
	*lease
	lockspec.Fenced
}

// adopt wraps a lease that the node was granted.
func (n *Node) adopt(inner lockspec.Lease) lockspec.Lease {
	l := &lease{n: n, inner: inner, over: make(chan struct{}), renewals: make(chan lockspec.Renewal, 64), woken: make(chan struct{}, 1)}
	if _, ok := inner.(lockspec.Notifier); ok {
		l.lost = make(chan struct{})
	}
	n.w.mu.Lock()
	n.leases = append(n.leases, l)
	n.w.mu.Unlock()
	go l.watch()
	if f, ok := inner.(lockspec.Fenced); ok {
		return fencedLease{l, f}
	}
	return l
}

// watch tells of a loss that is raised while nobody asks the lease anything.
func (l *lease) watch() {
	var lost <-chan struct{}
	if s, ok := l.inner.(lockspec.Notifier); ok {
		lost = s.Lost()
	}
	select {
	case <-lost:
		if l.n.runs.pass(l.over, l.n.gone) {
			l.n.flush()
		}
	case <-l.over:
	case <-l.n.gone:
	}
}

// flush tells what leases have raised. It never matters whether it comes before
// or after a reply of the same moment: the reply tells the same first.
func (n *Node) flush() {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.runs.closed == 0 && !n.w.ended && !n.dead {
		n.signal()
	}
}

func (n *Node) signal() {
	for _, l := range n.leases {
		l.signal()
	}
}

// flushSoon flushes when the lock has had the time to take in what it just
// heard.
func (n *Node) flushSoon() { time.AfterFunc(n.w.apart(n.w.draw(1, 2*time.Microsecond)), n.flush) }

// signal puts what the lease has raised into the node's stream, with the
// world's mutex held. Each signal is told once.
func (l *lease) signal() {
	if r, ok := l.inner.(lockspec.RenewalSource); ok {
		for more := true; more; {
			select {
			case renewal := <-r.Renewals():
				l.forward(renewal)
			default:
				more = false
			}
		}
	}
	s, ok := l.inner.(lockspec.Notifier)
	if !ok || l.told {
		return
	}
	select {
	case <-s.Lost():
	default:
		return
	}
	l.told, l.cause = true, s.Cause()
	if t, ok := l.inner.(lockspec.LossStamper); ok && l.n.w.plan.proven {
		l.at = t.LostAt()
	}
	time.AfterFunc(l.n.slot(), func() { close(l.lost) })
}

func (l *lease) forward(r lockspec.Renewal) {
	if !l.n.w.plan.proven {
		r.Sent = 0
	}
	time.AfterFunc(l.n.slot(), func() {
		select {
		case l.renewals <- r:
		default:
		}
		select {
		case l.woken <- struct{}{}:
		default:
		}
	})
}

// do is one call of the tenure.
func (l *lease) do(ctx context.Context, call func(context.Context) error) error {
	inside, end, err := l.n.enter(ctx)
	if err != nil {
		return err
	}
	err = call(inside)
	end()
	if told := l.n.leave(); told != nil {
		return told
	}
	return err
}

func (l *lease) Granted() time.Duration { return l.inner.Granted() }

// Release implements lockspec.Lease.
func (l *lease) Release(ctx context.Context) error {
	err := l.do(ctx, l.inner.Release)
	l.n.w.mu.Lock()
	defer l.n.w.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.over)
		l.n.leases = slices.DeleteFunc(l.n.leases, func(o *lease) bool { return o == l })
	}
	return err
}

// Renew implements lockspec.Renewer.
func (l *lease) Renew(ctx context.Context, d time.Duration) error {
	r, ok := l.inner.(lockspec.Renewer)
	if !ok {
		return lockspec.ErrUnsupported
	}
	return l.do(ctx, func(ctx context.Context) error { return r.Renew(ctx, d) })
}

// Held implements lockspec.HoldChecker.
func (l *lease) Held(ctx context.Context) error {
	h, ok := l.inner.(lockspec.HoldChecker)
	if !ok {
		return lockspec.ErrUnsupported
	}
	return l.do(ctx, h.Held)
}

// Work implements lockspec.Worker: the node checks, works, and answers without
// a second check.
func (l *lease) Work(ctx context.Context, work time.Duration) (token int64, err error) {
	if f, ok := l.inner.(lockspec.Fenced); ok {
		token = f.Token()
	}
	return token, l.do(ctx, func(ctx context.Context) error {
		if h, ok := l.inner.(lockspec.HoldChecker); ok {
			if err := h.Held(ctx); err != nil {
				return err
			}
		}
		return l.n.work(ctx, work)
	})
}

// work lets time go by on the node, with a place for a fault at a drawn point.
func (n *Node) work(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(n.w.spaced(d))
	defer t.Stop()
	if n.w.plan.awaits(n.Name, inWork) {
		into := n.w.moment(0, d)
		t.Reset(into)
		if err := n.pass(ctx, t.C); err != nil {
			return err
		}
		n.reach(place{inWork, 0}, nil)
		n.runs.pass(nil, n.gone)
		t.Reset(d - into)
	}
	if err := n.pass(ctx, t.C); err != nil {
		return err
	}
	n.runs.pass(nil, n.gone)
	return nil
}

// pass waits on the node for a timer of it.
func (n *Node) pass(ctx context.Context, c <-chan time.Time) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.gone:
		return errDied
	}
}

// Lost implements lockspec.Notifier.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Cause implements lockspec.Notifier.
func (l *lease) Cause() error {
	select {
	case <-l.lost:
		return l.cause
	default:
		return nil
	}
}

// LostAt implements lockspec.LossStamper.
func (l *lease) LostAt() lockspec.Stamp {
	select {
	case <-l.lost:
		return l.at
	default:
		return 0
	}
}

// Sent implements lockspec.Sender.
func (l *lease) Sent() lockspec.Stamp {
	if s, ok := l.inner.(lockspec.Sender); ok && l.n.w.plan.proven {
		return s.Sent()
	}
	return 0
}

// Woken implements workload.Waker.
func (l *lease) Woken() <-chan struct{} { return l.woken }

// Renewals implements lockspec.RenewalSource.
func (l *lease) Renewals() <-chan lockspec.Renewal { return l.renewals }
