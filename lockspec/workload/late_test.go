package workload

import (
	"context"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// answersAfter is a client whose acquisitions are given up, each with what
// becomes of it afterwards.
func answersAfter(after func(tell func(lockspec.Late))) *toy {
	return &toy{acquire: func(ctx context.Context) (lockspec.Lease, error) {
		after(lockspec.LateOf(ctx))
		return nil, lockspec.ErrUnavailable
	}}
}

// TestLateGrant: a grant whose caller had given up is a tenure of the process
// name that asked for it, is given back at once, and is read so.
func TestLateGrant(t *testing.T) {
	s := newStage(t, nil)
	var tell func(lockspec.Late)
	p := s.NewProcess("n1", answersAfter(func(f func(lockspec.Late)) { tell = f }), nil)
	name := p.Name()
	if _, err := p.Acquire(t.Context(), ask); err == nil {
		t.Fatal("it was granted")
	}
	tell(lockspec.Late{Lease: newToyLease(7)})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	events := s.events(t)
	wantLines(t, events, "invoke acquire", "info acquire unavailable", "event late", "invoke release", "ok release")
	late := events[2]
	if late.Of != events[0].Index || late.Outcome != lockspec.OK || late.Tenure == "" || late.Token != 7 || late.Lease != time.Second || late.Process != name || p.Name() == name {
		t.Errorf("recorded: %+v", late)
	}
	if r := events[3]; r.Process != name || r.Tenure != late.Tenure {
		t.Errorf("released: %+v", r)
	}
	v := checker.Judge(&history.Header{Version: history.FormatVersion, Class: lockspec.Leased}, events)
	if len(v.Tenures) != 1 || v.Tenures[0].ID != late.Tenure || v.Tenures[0].Believed.Length() != 0 {
		t.Errorf("read as %+v", v.Tenures)
	}
}

// TestLateAnswerThatOvertakes: the answer comes while the call returns, and is
// recorded after it all the same.
func TestLateAnswerThatOvertakes(t *testing.T) {
	s := newStage(t, nil)
	p := s.NewProcess("n1", answersAfter(func(tell func(lockspec.Late)) { tell(lockspec.Late{Err: lockspec.ErrBusy}) }), nil)
	if _, err := p.Acquire(t.Context(), ask); err == nil {
		t.Fatal("it was granted")
	}
	_ = p.Close()
	events := s.events(t)
	wantLines(t, events, "invoke acquire", "info acquire unavailable", "event late")
	if e := events[2]; e.Outcome != lockspec.Busy || e.Of != 0 {
		t.Errorf("recorded: %+v", e)
	}
}

// TestLateRenewal: what a renewal was granted counts, whoever had given it up.
func TestLateRenewal(t *testing.T) {
	s := newStage(t, nil)
	l := &lateRenewer{toyLease: newToyLease(7)}
	p := s.NewProcess("n1", &toy{acquire: grant(l)}, nil)
	tenure, err := p.Acquire(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	defer tenure.Stop()
	if err := tenure.Renew(t.Context(), 0); err == nil {
		t.Fatal("it was renewed")
	}
	l.tell(lockspec.Late{Granted: 3 * time.Second})
	events := s.events(t)
	wantLines(t, events, "invoke acquire", "ok acquire", "invoke renew", "info renew unavailable", "event late")
	if e := events[4]; e.Outcome != lockspec.OK || e.Lease != 3*time.Second || e.Tenure != tenure.ID || e.Of != events[2].Index {
		t.Errorf("recorded: %+v", e)
	}
}

type lateRenewer struct {
	*toyLease
	tell func(lockspec.Late)
}

func (l *lateRenewer) Renew(ctx context.Context, _ time.Duration) error {
	l.tell = lockspec.LateOf(ctx)
	return lockspec.ErrUnavailable
}

// TestLateAfterTheEnd: what comes after the case was judged is given back, and
// recorded no more.
func TestLateAfterTheEnd(t *testing.T) {
	s := newStage(t, nil)
	var tell func(lockspec.Late)
	p := s.NewProcess("n1", answersAfter(func(f func(lockspec.Late)) { tell = f }), nil)
	_, _ = p.Acquire(t.Context(), ask)
	_ = p.Close()
	released := make(chan struct{})
	l := newToyLease(7)
	l.release = func() error { close(released); return nil }
	tell(lockspec.Late{Lease: l})
	<-released
	wantLines(t, s.events(t), "invoke acquire", "info acquire unavailable")
}
