package contract

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/lockspec/workload"
	"github.com/lockcheck/lockcheck/reports/result"
)

// Env is what a case sees: clients, keys of its own, its lease, and where to
// say what it found. A method whose name begins with Must ends the case, or, in a
// goroutine that the case started, the part of it that runs there.
// It is safe for concurrent use.
type Env struct {
	Case        *Case
	Scene       *workload.Scene
	Description lockspec.Description // as claimed, less what was found false
	Lease       time.Duration        // the case's measure of time, and the lease to ask for where there are leases so short (see LeaseOf, Term)
	Rand        *rand.Rand           // decided by the run's seed and the case; for the case's own goroutine

	ctx     context.Context // of the run
	harness Harness
	prefix  string
	seed    uint64
	stalled func(ctx context.Context, since int64) time.Duration
	began   int64 // in time of the run
	parent  *Env  // of a part of a case: what it finds is the whole's

	mu        sync.Mutex
	statuses  []result.Status
	reasons   []string
	blame     result.Blame
	story     []string
	processes []*workload.Process
	tenures   []*workload.Tenure
	strikes   []*Strike
}

// Key is a key of the case's own.
func (e *Env) Key(name string) string { return e.prefix + e.Case.ID + "/" + name }

// RandFor is a source of its own for the n-th concurrent actor of the case.
func (e *Env) RandFor(n int) *rand.Rand { return rand.New(rand.NewPCG(e.seed, uint64(n)+1)) }

// MustProcess is a new process on the node; the case ends as error if there is
// none to be had.
func (e *Env) MustProcess(ctx context.Context, node string) *workload.Process {
	p, err := e.Process(ctx, node)
	if err != nil {
		e.MustError(result.BlameTarget, "node %s: %v", node, err)
	}
	return p
}

// Process is a new process on the node. The case closes it at its end.
func (e *Env) Process(ctx context.Context, node string) (*workload.Process, error) {
	c, err := e.harness.Open(ctx, node)
	if err != nil {
		return nil, err
	}
	return e.adopt(node, c, e.watch(ctx, node)), nil
}

// adopt drives a client as a process that the case closes at its end.
func (e *Env) adopt(node string, c lockspec.Client, w workload.Watch) *workload.Process {
	p := e.Scene.NewProcess(node, c, w)
	top := e.top()
	top.mu.Lock()
	defer top.mu.Unlock()
	top.processes = append(top.processes, p)
	return p
}

// watch decides whose fault a call is that outlived its bound. A driver that
// does not even answer a ping hangs: it is ended, and nothing is said of the
// lock. One that does has a lock that hangs. One that was started anew since
// the call was made has lost the call, and says nothing either way.
func (e *Env) watch(ctx context.Context, name string) workload.Watch {
	host, ok := e.harness.(NodeHost)
	if !ok {
		return nil
	}
	return func(op history.Op) func() {
		n, err := host.Node(ctx, name)
		if err != nil {
			return func() {}
		}
		before := n.Incarnation()
		return func() {
			if n.Incarnation() == before && !n.Paused() && !e.hung(n) {
				e.Fail(checker.Contract, "operation-hangs", "%s on %s did not return within its bound, while its process still ran", op, name)
			}
		}
	}
}

// hung ends the node and blames its driver if it does not answer.
func (e *Env) hung(n *driver.Node) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := n.Ping(ctx, false); err == nil {
		return false
	}
	select {
	case <-n.Exited():
		return true
	default:
	}
	_ = n.Kill()
	e.blameTarget()
	e.Note(result.Error, fmt.Sprintf("driver of %s hangs: it does not answer a ping; it was killed", n.Name()))
	return true
}

// endHung ends every node of the case that does not answer.
func (e *Env) endHung() {
	host, ok := e.harness.(NodeHost)
	if !ok {
		return
	}
	for _, p := range e.processes {
		if n, err := host.Node(context.Background(), p.Node); err == nil && !n.Paused() {
			e.hung(n)
		}
	}
}

func (e *Env) blameTarget() {
	top := e.top()
	top.mu.Lock()
	defer top.mu.Unlock()
	top.blame = result.BlameTarget
}

// MustNode is the operating-system process of a node.
func (e *Env) MustNode(ctx context.Context, name string) *driver.Node {
	host, ok := e.harness.(NodeHost)
	if !ok {
		e.MustUnsupported("harness cannot run nodes as processes")
	}
	n, err := host.Node(ctx, name)
	if err != nil {
		e.MustError(result.BlameTarget, "node %s: %v", name, err)
	}
	return n
}

// Power is the harness itself, for a case that needs a power of it.
func (e *Env) Power() Harness { return e.harness }

// Fail notes a finding; the case goes on.
func (e *Env) Fail(kind checker.Kind, rule, format string, args ...any) {
	e.FailWith(checker.Finding{Kind: kind, Rule: rule, Level: checker.Service, Message: fmt.Sprintf(format, args...)})
}

// FailWith notes a finding with its evidence; the case goes on. What a case
// sees once the run was interrupted is no evidence: its calls were cut short
// and its nodes are being ended.
func (e *Env) FailWith(f checker.Finding) {
	if e.ctx.Err() == nil {
		e.Scene.Find(f)
	}
}

// Story adds a sentence to what is told of the case.
func (e *Env) Story(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.story = append(e.story, fmt.Sprintf(format, args...))
}

// Inconclusive says that the case has no evidence for a verdict; it goes on.
func (e *Env) Inconclusive(format string, args ...any) {
	e.Note(result.Inconclusive, fmt.Sprintf(format, args...))
}

// MustUnsupported ends the case: it needs what is not there.
func (e *Env) MustUnsupported(format string, args ...any) {
	e.Note(result.Unsupported, fmt.Sprintf(format, args...))
	e.stop()
}

// MustError ends the case: something other than the lock failed.
func (e *Env) MustError(blame result.Blame, format string, args ...any) {
	if blame == result.BlameTarget {
		e.blameTarget()
	}
	e.Note(result.Error, fmt.Sprintf(format, args...))
	e.stop()
}

// Stop ends the case where what it found makes the rest pointless.
func (e *Env) Stop() { e.stop() }

func (e *Env) stop() { runtime.Goexit() }

func (e *Env) top() *Env {
	for e.parent != nil {
		e = e.parent
	}
	return e
}

// Note merges a status into the case's, with its reason; the case goes on.
func (e *Env) Note(s result.Status, reason string) {
	e = e.top()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.statuses = append(e.statuses, s)
	e.reasons = append(e.reasons, reason)
}

// MustAcquire takes a key that must be free now; any other answer is a finding
// and ends the case. An outage makes it inconclusive instead.
func (e *Env) MustAcquire(ctx context.Context, p *workload.Process, r lockspec.Request) *workload.Tenure {
	t, err := p.Acquire(ctx, r)
	if err == nil {
		return e.keep(t)
	}
	if lockspec.OutcomeOf(err).Effect() == lockspec.Unknown {
		e.Inconclusive("acquire of a free key: %v", err)
	} else {
		e.Fail(checker.Contract, "free-key-refused", "acquire of the free key %q answered %s", r.Key, lockspec.OutcomeOf(err))
	}
	e.stop()
	return nil
}

// keep makes the case stop recording the tenure's signals at its end.
func (e *Env) keep(t *workload.Tenure) *workload.Tenure {
	e = e.top()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tenures = append(e.tenures, t)
	return t
}

// Expect compares an outcome with those that are right; another is a finding.
// An unknown outcome makes the case inconclusive: it says nothing.
func (e *Env) Expect(what string, err error, right ...lockspec.Outcome) bool {
	got := lockspec.OutcomeOf(err)
	for _, o := range right {
		if got == o {
			return true
		}
	}
	if got.Effect() == lockspec.Unknown {
		e.Inconclusive("%s: %v", what, err)
		return false
	}
	f := checker.Finding{Kind: checker.Contract, Rule: "outcome", Message: fmt.Sprintf("%s answered %s, right is %s", what, got, words(right))}
	loses := got == lockspec.OK || got == lockspec.Lost || got == lockspec.NotHeld
	switch {
	case loses && e.someRanOut():
		e.Inconclusive("%s; a lease of the case, which nobody renews, may have run out by then", f.Message)
	case loses:
		e.doubt(f) // who cannot run cannot renew
	default:
		e.accuse(f)
	}
	return false
}

// ranOut says whether the tenure's lease may have run out by now: a lock that
// does not renew by itself keeps nothing longer.
func (e *Env) ranOut(t *workload.Tenure) bool {
	return t.Lease > 0 && e.Renewal() != lockspec.RenewAuto && time.Since(t.Asked) >= t.Lease-e.Description.Bounds.LossMarginFor(t.Lease)
}

// someRanOut says it of any tenure of the case.
func (e *Env) someRanOut() bool {
	top := e.top()
	top.mu.Lock()
	defer top.mu.Unlock()
	return slices.ContainsFunc(top.tenures, e.ranOut)
}

// doubt notes a finding that could not be made if somebody had not lost a lease,
// which nobody can keep on a machine that stalled longer than the lock tolerates
// since the case began.
func (e *Env) doubt(f checker.Finding) {
	tolerated := max(e.unseen(), e.Description.Bounds.Tolerates)
	if stalled := e.stalled(e.ctx, e.began); stalled > tolerated {
		e.Inconclusive("%s; this machine stalled for %s meanwhile", f.Message, stalled.Round(time.Millisecond))
		return
	}
	e.accuse(f)
}

func words(outcomes []lockspec.Outcome) string {
	s := string(outcomes[0])
	for _, o := range outcomes[1:] {
		s += " or " + string(o)
	}
	return s
}

// Renewal is the renew mode that keeps a lease for as long as a case holds it:
// by itself where claimed.
func (e *Env) Renewal() lockspec.RenewMode {
	if e.Description.Claims(lockspec.AutoRenew) {
		return lockspec.RenewAuto
	}
	return lockspec.RenewDefault
}

// MustSleep waits; the case ends when its context does.
func (e *Env) MustSleep(ctx context.Context, d time.Duration) {
	if workload.Sleep(ctx, d) != nil {
		e.stop()
	}
}

// Stalled is how long this machine kept the harness or a node from running
// since then. A duration that was measured meanwhile is too long by up to that,
// and is judged against its bound and that.
func (e *Env) Stalled(ctx context.Context, since time.Time) time.Duration {
	return e.stalled(ctx, e.Scene.Recorder().Now()-int64(time.Since(since)))
}

// Release gives a tenure back, bounded, whatever became of the context.
func (e *Env) Release(ctx context.Context, t *workload.Tenure) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workload.Patience(t.Lease))
	defer cancel()
	return t.Release(ctx)
}

// close ends what the case left open.
func (e *Env) close() {
	e.heal()
	for _, t := range e.tenures {
		t.Stop()
	}
	for _, p := range e.processes {
		_ = p.Close()
	}
}

// outcome is the status the case itself came to, and why.
func (e *Env) outcome() (result.Status, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	worst := result.Merge(e.statuses...)
	for i, s := range e.statuses {
		if s == worst {
			return worst, e.reasons[i]
		}
	}
	return worst, ""
}

var errLimit = errors.New("limit of the case")
