package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// asksAfterwards stops a holder past its lease, and asks it first of all
// whether it holds. What it answers is judged by the checker: an ok is a lie.
func (s *scenario) asksAfterwards(ctx context.Context) {
	step := s.steps[0]
	p := s.env.MustProcess(ctx, step.Node)
	t, ok := s.takeSoon(ctx, p, step)
	if !ok {
		return
	}
	defer t.Stop()
	if !s.strike(ctx, s.env.Case.ID+"-f1", step) {
		return
	}
	err := t.Held(ctx)
	s.env.Story("asked when it ran again after %s of a lease of %s, the holder said %s", step.For.Round(time.Millisecond), t.Lease, lockspec.OutcomeOf(err))
	if err == nil && t.Lease > 0 {
		s.env.FailWith(checker.Finding{Kind: checker.LossSignal, Rule: "held-after-lease", Level: checker.Lease, Key: t.Key, Tenures: []string{t.ID},
			Events: []int64{t.Granted()}, Message: fmt.Sprintf("%s was asked after %s of standing still and said that it holds a lease of %s", t.ID, step.For.Round(time.Millisecond), t.Lease)})
	}
	_ = s.env.Release(ctx, t)
	s.afterwards(ctx, step.Node, s.env.RandFor(0))
}

// killWaiter kills a node whose process waits for a key that another holds.
func (s *scenario) killWaiter(ctx context.Context) {
	step := s.steps[0]
	other := s.node(0)
	if step.Node == other {
		other = s.node(1)
	}
	p, waiter := s.env.MustProcess(ctx, other), s.env.MustProcess(ctx, step.Node)
	t, ok := s.takeSoon(ctx, p, step)
	if !ok {
		return
	}
	var waits sync.WaitGroup
	waits.Go(func() {
		r := s.request()
		if s.env.Description.Claims(lockspec.Wait) {
			r.Wait = lockspec.NoLimit
		}
		if got, err := workload.AcquireSoon(ctx, waiter, r, s.load().Poll); err == nil {
			_ = s.env.Release(ctx, got)
			got.Stop()
		}
	})
	wait(ctx, step.Into)
	s.strike(ctx, s.env.Case.ID+"-f1", step)
	_ = s.env.Release(ctx, t)
	t.Stop()
	s.afterwards(ctx, other, s.env.RandFor(0))
	waits.Wait()
}

// delayedWrite lets a write go in time and arrive late. What it overwrites in
// the open register is the resource's doing, not the lock's; the fenced one
// refuses it.
func (s *scenario) delayedWrite(ctx context.Context) {
	step := s.steps[0]
	p := s.env.MustProcess(ctx, step.Node)
	t, ok := s.takeSoon(ctx, p, step)
	if !ok {
		return
	}
	e := history.Event{Type: history.Happen, Op: history.Fault, ID: s.env.Case.ID + "-f1", Fault: step.Fault,
		Targets: []string{"key:" + s.key}, Origin: history.Injected}
	phase := func(p history.Phase) {
		next := e
		next.Phase = p
		s.env.Scene.Record(&next)
	}
	onWay, arrived := make(chan struct{}), make(chan error, 1)
	phase(history.Start)
	go func() {
		arrived <- t.WriteLate(ctx, s.env.Term()/4, func() {
			phase(history.Landed)
			close(onWay)
			wait(ctx, step.For)
		})
	}()
	select {
	case <-onWay:
	case err := <-arrived:
		t.Stop()
		s.env.Inconclusive("the write was refused before it was on its way: %v", err)
		return
	case <-ctx.Done():
		return
	}
	_ = s.env.Release(ctx, t)
	t.Stop()
	others, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	for n := range Nodes {
		q, rng := s.env.MustProcess(ctx, s.node(n)), s.env.RandFor(n)
		all.Go(func() { workload.Contend(others, q, rng, s.load()) })
	}
	err := <-arrived
	phase(history.Healing)
	phase(history.End)
	if err != nil && !errors.Is(err, context.Canceled) {
		s.env.Inconclusive("the write that was on its way: %v", err)
	}
	wait(ctx, s.env.Lease/2)
	end()
	all.Wait()
}

// inheritsNothing looks at what a child of a holder's process would inherit.
func (s *scenario) inheritsNothing(ctx context.Context) {
	name := s.node(0)
	p := s.env.MustProcess(ctx, name)
	n := s.env.MustNode(ctx, name)
	t, err := workload.AcquireSoon(ctx, p, s.request(), s.load().Poll)
	if err != nil {
		s.env.Inconclusive("%s never got the key: %v", name, err)
		return
	}
	defer t.Stop()
	open, inherited, err := sockets(n.PID())
	_ = s.env.Release(ctx, t)
	switch {
	case errors.Is(err, lockspec.ErrUnsupported):
		s.env.MustUnsupported("%v", err)
	case err != nil:
		s.env.Inconclusive("what the node's process has open: %v", err)
	case open == 0:
		s.env.Inconclusive("the node's process has no connection open while it holds")
	default:
		s.env.Story("%d connections are open while the lock is held; a child would inherit %d", open, inherited)
		if inherited > 0 && t.Lease == 0 {
			s.env.Fail(checker.Contract, "inherited-session", "a child of the holder's process would inherit %d of its %d connections, and the lock lives as long as one is open", inherited, open)
		}
	}
}
