package contract_test

import (
	"context"
	"errors"
	"net/url"
	"os"
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

// TestMain lets the test binary be the driver of process-level cases.
func TestMain(m *testing.M) {
	driver.Main(openDriver)
	os.Exit(m.Run())
}

// openDriver is the lock of a driver process: the reference engine over the
// server that the URL names, on a clock that can be put wrong. As wall:// it
// trusts that clock more than the service.
func openDriver(_ context.Context, at driver.Target) (driver.Lock, error) {
	u, err := url.Parse(at.URL)
	if err != nil {
		return nil, err
	}
	d := &driven{clock: fakeclock.NewView(fakeclock.Real())}
	b := memory.Dial(u.Host, nil)
	if u.Scheme == "wall" {
		b = wallClocked{b, d}
	}
	d.engine, err = reference.New(b, &reference.Options{Lease: labLease, Clock: d.clock})
	return d, err
}

type driven struct {
	engine *reference.Engine
	clock  *fakeclock.View

	mu     sync.Mutex
	offset time.Duration
}

func (d *driven) Describe() lockspec.Description {
	says := d.engine.Client().(lockspec.Describer).Describe()
	says.Features = append(says.Features, lockspec.ClockSkew)
	return says
}

func (d *driven) Client(string) (lockspec.Client, error) {
	return shared{Client: d.engine.Client()}, nil
}
func (d *driven) Close() error { return d.engine.Close() }

func (d *driven) SetClock(offset time.Duration, rate float64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock.Shift(offset - d.offset)
	d.clock.SetRate(rate)
	d.offset = offset
	return nil
}

func (d *driven) ahead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.offset > 0
}

// wallClocked takes a busy key for expired where its own wall clock says so.
type wallClocked struct {
	reference.Backend
	node *driven
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
	wantFinding(t, checkCase(t, newProcesses(t, "wall"), "E15"), "E15", "overlap", "entitled")
	for range 3 {
		c := caseOf(t, checkCase(t, newProcesses(t, "memory"), "E15"), "E15")
		if c.Status == result.Pass {
			return
		}
		if c.Status != result.Inconclusive {
			t.Fatalf("%s: %s", c.Status, c.Reason)
		}
		t.Log(c.Reason)
	}
	t.Error("inconclusive three times")
}
