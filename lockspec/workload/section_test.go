package workload

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// sectioner is a client that takes a callback.
type sectioner struct {
	toy
	section func(entered func(lockspec.Lease), left func(lockspec.Stamp)) (int64, error)
}

func (c *sectioner) Section(_ context.Context, _ lockspec.Request, _ time.Duration, entered func(lockspec.Lease), left func(lockspec.Stamp)) (int64, error) {
	return c.section(entered, left)
}

func TestSection(t *testing.T) {
	for _, test := range []struct {
		name    string
		section func(entered func(lockspec.Lease), left func(lockspec.Stamp)) (int64, error)
		want    []string
		finds   string
	}{
		{"whole", func(entered func(lockspec.Lease), left func(lockspec.Stamp)) (int64, error) {
			entered(newToyLease(7))
			left(0)
			return 7, nil
		}, []string{"invoke section", "event entered", "event left", "ok section"}, ""},
		{"busy", func(func(lockspec.Lease), func(lockspec.Stamp)) (int64, error) { return 0, lockspec.ErrBusy },
			[]string{"invoke section", "fail section busy"}, ""},
		{"lost in its work", func(entered func(lockspec.Lease), left func(lockspec.Stamp)) (int64, error) {
			l := newToyLease(7)
			entered(l)
			close(l.lost)
			left(0)
			return 7, lockspec.ErrLost
		}, []string{"invoke section", "event entered", "event lost", "event left", "fail section lost"}, ""},
		{"given up in its work", func(entered func(lockspec.Lease), left func(lockspec.Stamp)) (int64, error) {
			entered(newToyLease(7))
			return 0, lockspec.ErrUnavailable
		}, []string{"invoke section", "event entered", "info section unavailable"}, ""},
		{"another token", func(entered func(lockspec.Lease), left func(lockspec.Stamp)) (int64, error) {
			entered(newToyLease(7))
			left(0)
			return 8, nil
		}, []string{"invoke section", "event entered", "event left", "ok section"}, "token-changed"},
		{"never entered", func(func(lockspec.Lease), func(lockspec.Stamp)) (int64, error) { return 0, nil },
			[]string{"invoke section", "ok section"}, "section-unseen"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, nil)
			p := s.NewProcess("n1", &sectioner{section: test.section}, nil)
			_, _ = p.Section(t.Context(), ask, 0)
			events := s.events(t)
			wantLines(t, events, test.want...)
			for _, e := range events[1:] {
				if inside := slices.ContainsFunc(events, func(e history.Event) bool { return e.Op == history.Entered }); inside == (e.Tenure == "") {
					t.Errorf("of no tenure: %+v", e)
				}
			}
			found := ""
			for _, f := range s.Findings() {
				found += f.Rule
			}
			if found != test.finds {
				t.Errorf("found %q, want %q", found, test.finds)
			}
		})
	}
}

func TestNoSection(t *testing.T) {
	s := newStage(t, nil)
	p := s.NewProcess("n1", &toy{}, nil)
	if _, err := p.Section(t.Context(), ask, 0); !errors.Is(err, lockspec.ErrUnsupported) {
		t.Errorf("a client without a callback: %v", err)
	}
	wantLines(t, s.events(t))
}

// TestSectionsOverlap: another who is granted the key while one is inside is
// found, where the node of the one answered in between: that proves that he was
// still inside.
func TestSectionsOverlap(t *testing.T) {
	s := newStage(t, nil)
	other, witness := s.NewProcess("n2", &toy{acquire: grant(newToyLease(2))}, nil), s.NewProcess("n1", &toy{acquire: refuse(lockspec.ErrBusy)}, nil)
	p := s.NewProcess("n1", &sectioner{section: func(entered func(lockspec.Lease), left func(lockspec.Stamp)) (int64, error) {
		entered(newToyLease(1))
		left(0)
		return 1, nil
	}}, nil)
	_, _ = p.SectionWith(t.Context(), ask, 0, func(*Tenure) {
		if j, err := other.Acquire(t.Context(), ask); err == nil {
			defer j.Stop()
		}
		_, _ = witness.Acquire(t.Context(), lockspec.Request{Key: "scratch"})
	})
	v := checker.Judge(&history.Header{Version: history.FormatVersion, Class: lockspec.Leased}, s.events(t))
	if !slices.ContainsFunc(v.Findings, func(f checker.Finding) bool { return f.Kind == checker.Overlap }) {
		t.Errorf("found %+v", v.Findings)
	}
}

// doubtful is a lease that tells of its connection.
type doubtful struct {
	*toyLease
	doubts chan bool
}

func (l *doubtful) Doubts() <-chan bool { return l.doubts }

// TestDoubt: what a lock says of its connection is recorded before any reply
// that came after it, and before the loss that it may end in.
func TestDoubt(t *testing.T) {
	s := newStage(t, nil)
	l := &doubtful{newToyLease(7), make(chan bool, 3)}
	tenure, err := s.NewProcess("n1", &toy{acquire: grant(l)}, nil).Acquire(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	l.doubts <- true
	_ = tenure.Held(t.Context())
	l.doubts <- false
	l.doubts <- true
	close(l.lost)
	tenure.Stop()
	events := s.events(t)
	recorded := slices.DeleteFunc(lines(events), func(l string) bool { return l == "invoke held" || l == "ok held" })
	if want := []string{"invoke acquire", "ok acquire", "event doubt", "event sure", "event doubt", "event lost"}; !slices.Equal(recorded, want) {
		t.Errorf("recorded %q, want %q", recorded, want)
	}
	v := checker.Judge(&history.Header{Version: history.FormatVersion, Class: lockspec.Leased}, events)
	if b := v.Tenures[0].Believed; b.Length() == 0 {
		t.Errorf("believed %v", b)
	}
}
