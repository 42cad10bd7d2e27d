package contract_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/broken"
	"github.com/lockcheck/lockcheck/reference/memory"
	"github.com/lockcheck/lockcheck/reports/result"
)

// skewed opens locks of nodes whose clock can be put wrong: skewed:// is the
// reference engine, wall:// trusts its own wall clock more than the service, and
// of longer:// the service keeps keys for longer than it says.
func skewed(other driver.Opener) driver.Opener {
	return func(ctx context.Context, at driver.Target) (driver.Lock, error) {
		u, err := url.Parse(at.URL)
		if err != nil || !slices.Contains([]string{"skewed", "wall", "longer"}, u.Scheme) {
			return other(ctx, at)
		}
		d := &skewable{clock: fakeclock.NewView(fakeclock.Real())}
		b := memory.Dial(u.Host, nil)
		switch u.Scheme {
		case "wall":
			b = wallClocked{b, d}
		case "longer":
			b = keysLonger(b)
		}
		d.engine, err = reference.New(b, &reference.Options{Lease: labLease, Clock: d.clock})
		return d, err
	}
}

type skewable struct {
	engine *reference.Engine
	clock  *fakeclock.View

	mu     sync.Mutex
	offset time.Duration
}

func (d *skewable) Describe() lockspec.Description {
	says := d.engine.Client().(lockspec.Describer).Describe()
	says.Features = append(says.Features, lockspec.ClockSkew)
	return says
}

func (d *skewable) Client(string) (lockspec.Client, error) {
	return shared{d.engine.Client()}, nil
}
func (d *skewable) Close() error { return d.engine.Close() }

func (d *skewable) SetClock(offset time.Duration, rate float64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock.Shift(offset - d.offset)
	d.clock.SetRate(rate)
	d.offset = offset
	return nil
}

func (d *skewable) ahead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.offset > 0
}

// wallClocked takes a busy key for expired where its own wall clock says so.
type wallClocked struct {
	reference.Backend
	node *skewable
}

func (w wallClocked) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	g, err := w.Backend.Attempt(ctx, c)
	if errors.Is(err, lockspec.ErrBusy) && w.node.ahead() {
		_ = w.Backend.(broken.Deleter).Delete(ctx, c.Key)
		return w.Backend.Attempt(ctx, c)
	}
	return g, err
}

// processes is a lab whose nodes are processes.
type processes struct {
	*contract.Processes
	*lab
}

func (p processes) Open(ctx context.Context, node string) (lockspec.Client, error) {
	return p.Processes.Open(ctx, node)
}
func (p processes) Describe() lockspec.Description { return p.Processes.Describe() }

func newProcesses(t testing.TB, scheme string) processes {
	t.Helper()
	l := newLab(t, fault{})
	p, err := contract.NewProcesses(t.Context(), contract.ProcessOptions{
		Node: driver.Config{URL: scheme + "://" + l.addr}, Lease: labLease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return processes{p, l}
}

func TestWallClocksAreToldApartFromTheServices(t *testing.T) {
	wrong := eventually(3, func() error {
		return finds(checkCase(t, newProcesses(t, "wall"), "E15"), "E15", "overlap", "entitled")
	})
	if wrong != nil {
		t.Error(wrong)
	}
	right := eventually(3, func() error {
		c := caseOf(t, checkCase(t, newProcesses(t, "skewed"), "E15"), "E15")
		switch c.Status {
		case result.Pass:
			return nil
		case result.Inconclusive:
			return decided(c.Status, errors.New(c.Reason))
		}
		t.Fatalf("%s: %s", c.Status, c.Reason)
		return nil
	})
	if right != nil {
		t.Error(right)
	}
}
