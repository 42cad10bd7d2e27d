package workload

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// toy is a client whose answers a test decides.
type toy struct {
	acquire func(context.Context) (lockspec.Lease, error)
	closed  bool
}

func (c *toy) Acquire(ctx context.Context, _ lockspec.Request) (lockspec.Lease, error) {
	return c.acquire(ctx)
}
func (c *toy) Close() error { c.closed = true; return nil }

// toyLease is a lease with every power; a nil answer is ok.
type toyLease struct {
	lost     chan struct{}
	renewals chan lockspec.Renewal
	token    int64

	release, held, renew, work func() error
}

func newToyLease(token int64) *toyLease {
	return &toyLease{lost: make(chan struct{}), renewals: make(chan lockspec.Renewal, 10), token: token}
}

func answer(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

func (l *toyLease) Granted() time.Duration                     { return time.Second }
func (l *toyLease) Release(context.Context) error              { return answer(l.release) }
func (l *toyLease) Held(context.Context) error                 { return answer(l.held) }
func (l *toyLease) Renew(context.Context, time.Duration) error { return answer(l.renew) }
func (l *toyLease) Lost() <-chan struct{}                      { return l.lost }
func (l *toyLease) Cause() error                               { return lockspec.ErrLost }
func (l *toyLease) Renewals() <-chan lockspec.Renewal          { return l.renewals }
func (l *toyLease) Token() int64                               { return l.token }
func (l *toyLease) Work(context.Context, time.Duration) (int64, error) {
	return l.token, answer(l.work)
}

// stage is a scene whose history a test reads at the end.
type stage struct {
	*Scene
	out bytes.Buffer
	rec *history.Recorder
}

func newStage(t *testing.T, g Gate) *stage {
	t.Helper()
	s := &stage{}
	rec, err := history.NewRecorder(history.Header{Version: history.FormatVersion, Class: lockspec.Leased}, &history.Options{Out: &s.out})
	if err != nil {
		t.Fatal(err)
	}
	s.rec = rec
	s.Scene = (&Run{Recorder: rec, Gate: g}).NewScene("T01")
	return s
}

// events ends the recording and reads the history back: whatever the workload
// records must be well-formed.
func (s *stage) events(t *testing.T) []history.Event {
	t.Helper()
	if err := s.rec.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := history.ReadAll(&s.out)
	if err != nil {
		t.Fatal(err)
	}
	return h.Events
}

func grant(l lockspec.Lease) func(context.Context) (lockspec.Lease, error) {
	return func(context.Context) (lockspec.Lease, error) { return l, nil }
}

func refuse(err error) func(context.Context) (lockspec.Lease, error) {
	return func(context.Context) (lockspec.Lease, error) { return nil, err }
}
