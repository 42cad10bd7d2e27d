package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Section takes the lock, works and gives it back in one call, with a client
// that offers a callback; others answer ErrUnsupported. It gives the tenure that
// the work ran in, nil if it never began.
//
// Sections do not touch the registers: the harness hears of the end of the work
// when the release may have been on its way, and what it wrote then could follow
// what the next holder read. That they exclude each other is seen by when they
// were entered and left.
func (p *Process) Section(ctx context.Context, r lockspec.Request, work time.Duration) (*Tenure, error) {
	return p.SectionWith(ctx, r, work, nil)
}

// SectionWith calls begun once the section was entered.
func (p *Process) SectionWith(ctx context.Context, r lockspec.Request, work time.Duration, begun func(*Tenure)) (*Tenure, error) {
	c, ok := p.client.(lockspec.Sectioner)
	if !ok {
		return nil, lockspec.ErrUnsupported
	}
	e := history.Event{Process: p.Name(), Owner: p.Owner, Node: p.Node, Op: history.Section, Key: r.Key, Mode: r.Mode, Count: r.Count}
	invoke := e
	invoke.Type, invoke.Ask, invoke.Wait, invoke.Renewal = history.Invoke, r.Lease, r.Wait, r.Renew
	ctx, late := p.expect(ctx, e, p.scene.Record(&invoke))
	bound := r.Wait + r.Lease + work
	if r.Wait == lockspec.NoLimit {
		bound = lockspec.NoLimit
	}
	s := callback{process: p, asked: time.Now(), call: e, begun: begun}
	err := p.bounded(ctx, history.Section, bound, func(ctx context.Context) (err error) {
		e.Token, err = c.Section(ctx, r, work, s.entered, s.left)
		return err
	})
	s.returned(&e, late, err)
	return s.tenure, err
}

// callback is a section under way. Its client calls entered and left one after the
// other, both before it returns.
type callback struct {
	process *Process
	asked   time.Time
	call    history.Event
	begun   func(*Tenure)
	tenure  *Tenure
}

func (s *callback) entered(l lockspec.Lease) {
	if s.tenure != nil {
		return
	}
	e := s.call
	e.Type, e.Op = history.Happen, history.Entered
	t := s.process.tenure(&e, l)
	t.under, t.Asked = e.Process, s.asked
	t.granted = s.process.scene.Record(&e)
	t.checkToken()
	t.watch()
	if s.tenure = t; s.begun != nil {
		s.begun(t)
	}
}

func (s *callback) left(after lockspec.Stamp) {
	if t := s.tenure; t != nil {
		t.record(func() {
			e := t.event(history.Left)
			e.Type, e.Sent = history.Happen, t.process.scene.run.Recorder.At(after)
			t.process.scene.Record(&e)
		})
	}
}

// returned records the return of the call.
func (s *callback) returned(e *history.Event, late *late, err error) {
	t := s.tenure
	switch {
	case err != nil && t == nil:
		s.process.refused(e, late, err)
		return
	case t == nil:
		e.Type = history.OK
		s.process.scene.Record(e)
		s.process.scene.Find(checker.Finding{Kind: checker.Contract, Rule: "section-unseen", Level: checker.Service, Key: e.Key,
			Message: fmt.Sprintf("a section of %s was answered ok and never said that it was entered", e.Process)})
		return
	}
	e.Tenure = t.ID
	t.record(func() {
		if err != nil {
			s.process.refused(e, late, err)
			return
		}
		e.Type = history.OK
		s.process.scene.Record(e)
		t.compareToken(e.Token)
	})
	t.Stop()
}
