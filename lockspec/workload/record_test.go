package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

var ask = lockspec.Request{Key: "k", Lease: time.Second}

// line is an event in few words.
func line(e history.Event) string {
	s := fmt.Sprintf("%s %s", e.Type, e.Op)
	for _, w := range []string{string(e.Error), e.Register, e.Kind} {
		if w != "" {
			s += " " + w
		}
	}
	if e.Op == history.Register {
		s += fmt.Sprintf(" %d<%d", e.Version, e.BasedOn)
		s += []string{"", " accepted", " rejected"}[e.Accepted]
	}
	return s
}

func lines(events []history.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, line(e))
	}
	return out
}

func wantLines(t *testing.T, events []history.Event, want ...string) {
	t.Helper()
	if got := lines(events); !slices.Equal(got, want) {
		t.Errorf("recorded\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestWriteOrder: both registers are read at the invocation and written after
// the reply, and each access is a line of its own.
func TestWriteOrder(t *testing.T) {
	s := newStage(t, nil)
	p := s.NewProcess("n1", &toy{acquire: grant(newToyLease(7))}, nil)
	tenure, err := p.Acquire(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	defer tenure.Stop()
	if err := tenure.Write(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := tenure.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLines(t, s.events(t), "invoke acquire", "ok acquire", "invoke write",
		"event register open read 0<0", "event register fenced read 0<0 accepted", "ok write",
		"event register open write 1<0", "event register fenced write 1<0 accepted", "invoke release", "ok release")
}

// TestF09_FencedRegister: it refuses what is lower than the highest token it
// has seen and takes what is equal or higher, from any number of writers.
func TestF09_FencedRegister(t *testing.T) {
	s := newStage(t, nil)
	var writers sync.WaitGroup
	for n := range 32 {
		tenure := &Tenure{ID: fmt.Sprintf("t%d", n), Key: "k", Token: int64(n/2 + 1), HasToken: true}
		writers.Go(func() {
			for range 10 {
				s.Resource.write(tenure, s.Resource.read(tenure))
			}
		})
	}
	writers.Wait()
	var highest, version int64
	for _, e := range s.events(t) {
		if e.Register != history.FencedRegister {
			continue
		}
		if right := e.Token >= highest; right != (e.Accepted == history.Accepted) {
			t.Fatalf("token %d after %d: %v", e.Token, highest, e.Accepted)
		}
		highest = max(highest, e.Token)
		if e.Kind == history.RegisterWrite && e.Accepted == history.Accepted {
			version++
		}
		if e.Version != version {
			t.Fatalf("version %d after %d accepted writes", e.Version, version)
		}
	}
	if highest != 16 {
		t.Errorf("the highest token seen is %d", highest)
	}
}

// TestF10_SealBlocksAStaleFirstWrite: the seal refuses a stale writer even
// before the new holder has written; a resource that compares nothing does not.
func TestF10_SealBlocksAStaleFirstWrite(t *testing.T) {
	for _, test := range []struct {
		name     string
		gate     Gate
		accepted history.Verdict
	}{
		{"right", nil, history.Rejected},
		{"compares nothing", func(int64, int64) bool { return true }, history.Accepted},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, test.gate)
			old := &Tenure{ID: "t1", Key: "k", Token: 1, HasToken: true}
			next := &Tenure{ID: "t2", Key: "k", Token: 2, HasToken: true}
			based := s.Resource.read(old)
			s.Resource.read(next) // the seal
			s.Resource.write(old, based)
			s.Resource.write(next, based)
			var stale, open history.Event
			for _, e := range s.events(t) {
				if e.Kind == history.RegisterWrite && e.Tenure == "t1" {
					if e.Register == history.FencedRegister {
						stale = e
					} else {
						open = e
					}
				}
			}
			if stale.Accepted != test.accepted {
				t.Errorf("the stale write was %v, want %v", stale.Accepted, test.accepted)
			}
			if open.Version != 1 {
				t.Errorf("the open register refused a write: %+v", open)
			}
		})
	}
}

// TestNoToken: a tenure without a token leaves the fenced register alone.
func TestNoToken(t *testing.T) {
	s := newStage(t, nil)
	tenure := &Tenure{ID: "t1", Key: "k"}
	s.Resource.write(tenure, s.Resource.read(tenure))
	wantLines(t, s.events(t), "event register open read 0<0", "event register open write 1<0")
}

// TestLossBeforeReply: a loss that was signalled before a reply is recorded
// before it, whichever goroutine sees it first.
func TestLossBeforeReply(t *testing.T) {
	for range 200 {
		s := newStage(t, nil)
		l := newToyLease(0)
		l.release = func() error { // the lock signals, then answers
			l.renewals <- lockspec.Renewal{Lease: time.Second}
			close(l.lost)
			return lockspec.ErrLost
		}
		tenure, err := s.NewProcess("n1", &toy{acquire: grant(l)}, nil).Acquire(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		_ = tenure.Release(t.Context())
		tenure.Stop()
		wantLines(t, s.events(t), "invoke acquire", "ok acquire", "invoke release", "event renewed", "event lost", "fail release lost")
	}
}

// TestRetire: an unknown outcome retires the process's name, not its owner; a
// refusal, or an outage that surely did nothing, does not.
func TestRetire(t *testing.T) {
	for _, test := range []struct {
		err     error
		record  string
		retired bool
	}{
		{lockspec.ErrBusy, "fail acquire busy", false},
		{lockspec.ErrUnavailable, "info acquire unavailable", true},
		{context.Canceled, "info acquire cancelled", true},
		{errors.New("what is this"), "info acquire error", true},
		{sure{lockspec.ErrUnavailable}, "fail acquire unavailable", false},
		{fmt.Errorf("wait: %w: %w", lockspec.ErrBusy, context.DeadlineExceeded), "info acquire cancelled", true},
	} {
		s := newStage(t, nil)
		p := s.NewProcess("n1", &toy{acquire: refuse(test.err)}, nil)
		name, owner := p.Name(), p.Owner
		if _, err := p.Acquire(t.Context(), ask); !errors.Is(err, test.err) {
			t.Errorf("%v came back as %v", test.err, err)
		}
		if (p.Name() != name) != test.retired || p.Owner != owner {
			t.Errorf("%v: name %s, then %s", test.err, name, p.Name())
		}
		wantLines(t, s.events(t), "invoke acquire", test.record)
	}
}

type sure struct{ error }

func (sure) NoEffect() bool  { return true }
func (s sure) Unwrap() error { return s.error }

// TestWrongAnswers: what no interval shows is a finding of the workload's own.
func TestWrongAnswers(t *testing.T) {
	both := func(context.Context) (lockspec.Lease, error) { return newToyLease(1), lockspec.ErrBusy }
	changing := newToyLease(3)
	for _, test := range []struct {
		name, rule string
		kind       checker.Kind
		acquire    func(context.Context) (lockspec.Lease, error)
	}{
		{"neither", "nil-nil", checker.Contract, refuse(nil)},
		{"both", "nil-nil", checker.Contract, both},
		{"token 0", "token-not-positive", checker.Contract, grant(newToyLease(0))},
		{"token changes", "token-changed", checker.Fencing, grant(changing)},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, nil)
			changing.token = 3
			tenure, err := s.NewProcess("n1", &toy{acquire: test.acquire}, nil).Acquire(t.Context(), ask)
			if err == nil {
				defer tenure.Stop()
				changing.token = 4
				_ = tenure.Write(t.Context(), 0)
			}
			if f := s.Findings(); len(f) != 1 || f[0].Kind != test.kind || f[0].Rule != test.rule {
				t.Errorf("findings %+v, want %s/%s", f, test.kind, test.rule)
			}
		})
	}
}

// TestContendGivesBack: a contender releases what it took, also where its
// context ended in the work.
func TestContendGivesBack(t *testing.T) {
	s := newStage(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	l := newToyLease(1)
	l.work = func() error { cancel(); return context.Canceled }
	p := s.NewProcess("n1", &toy{acquire: grant(l)}, nil)
	if n := Contend(ctx, p, rand.New(rand.NewPCG(1, 1)), Load{Key: "k", Lease: time.Second}); n != 1 {
		t.Errorf("held %d times", n)
	}
	events := s.events(t)
	if last := line(events[len(events)-1]); last != "ok release" {
		t.Errorf("the last event is %q", last)
	}
}
