package interference

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

func TestRules(t *testing.T) {
	var s Rules
	x, err := s.Interfere(DropReply, "renew", "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		op, key string
		want    bool
	}{{"", "a", false}, {"acquire", "a", false}, {"renew", "b", false}, {"renew", "a", true}, {"renew", "a", false}} {
		if r := s.Strike(test.op, test.key); (r != nil) != test.want {
			t.Errorf("%s of %q: struck %v", test.op, test.key, r != nil)
		} else if r != nil {
			s.Spare(r)
			r = s.Strike(test.op, test.key)
			if r == nil {
				t.Fatal("what was spared is used up")
			}
			r.Hit()
			r.Hit()
		}
	}
	if err := x.Await(t.Context()); err != nil {
		t.Error(err)
	}
	s.Spare(nil)
	all, err := s.Interfere(HoldRequest, "", "", -1)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r := s.Strike("acquire", "b")
		if r == nil {
			t.Fatal("a rule for all is used up")
		}
		s.Spare(r)
	}
	if err := errors.Join(all.Lift(t.Context()), all.Lift(t.Context())); err != nil {
		t.Error(err)
	}
	if s.Strike("acquire", "b") != nil {
		t.Error("a lifted rule strikes")
	}
}

func TestBadRules(t *testing.T) {
	var s Rules
	for _, test := range []struct {
		what  Kind
		times int
	}{{"drop", 1}, {DropReply, 0}} {
		if _, err := s.Interfere(test.what, "", "", test.times); !errors.Is(err, lockspec.ErrConfig) {
			t.Errorf("%s %d times: %v", test.what, test.times, err)
		}
	}
}

// TestSilence: a question that a silence of our own keeps from being answered
// is told apart from one that nobody answers.
func TestSilence(t *testing.T) {
	var s Silence
	fine := func(context.Context) error { return nil }
	never := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	if err := s.Ping(t.Context(), fine); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Ping(ctx, never); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a service that does not answer: %v", err)
	}
	one, two := s.Begin(), s.Begin()
	one()
	one()
	if err := s.Ping(t.Context(), fine); !errors.Is(err, lockspec.ErrUnsupported) {
		t.Errorf("in a silence: %v", err)
	}
	two()
	if err := s.Ping(t.Context(), fine); err != nil {
		t.Error(err)
	}
	begun := make(chan func(), 1)
	err := s.Ping(t.Context(), func(ctx context.Context) error { begun <- s.Begin(); return nil })
	if !errors.Is(err, ErrSilenced) {
		t.Errorf("a silence that began meanwhile: %v", err)
	}
	(<-begun)()
}

// TestStop: a server that was stopped is silent until it was continued; one that
// could not be stopped, or continued, is as it was.
func TestStop(t *testing.T) {
	var s Silence
	broken := errors.New("broken")
	fine := func() error { return nil }
	fails := func() error { return broken }
	for n, step := range []struct {
		do     func(func() error) error
		with   func() error
		silent bool
	}{
		{s.Stop, fails, false}, {s.Stop, fine, true}, {s.Stop, fine, true},
		{s.Continue, fails, true}, {s.Continue, fine, false}, {s.Continue, fine, false},
	} {
		if err, want := step.do(step.with), step.with(); !errors.Is(err, want) {
			t.Errorf("step %d: %v", n, err)
		}
		err := s.Ping(t.Context(), func(context.Context) error { return nil })
		if silent := errors.Is(err, ErrSilenced); silent != step.silent {
			t.Errorf("step %d: silent %v", n, silent)
		}
	}
}
