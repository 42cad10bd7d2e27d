package contract_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestMain lets the test binary be the driver of process-level cases.
func TestMain(m *testing.M) {
	hardOfHearing(openDriver)
	driver.Main(skewed(openDriver))
	os.Setenv("GORACE", "atexit_sleep_ms=0") // the drivers of these tests are this binary; they need not sleep at their exit
	os.Exit(m.Run())
}

// fault makes a lab's lock wrong, or claim something else. Each field may be
// nil.
type fault struct {
	backend func(reference.Backend) reference.Backend
	client  func(lockspec.Client) lockspec.Client
	claims  func(*lockspec.Description)

	misdirected lockspec.Client // nil: the harness cannot misconfigure one

	offers    memory.BackendOptions // readers, permits
	reentrant bool
}

// lab is a harness with every power over the service: the reference engine in
// this process, one for each node, over a server that is in this process too.
type lab struct {
	fault fault
	addr  string
	admin memory.Admin

	mu      sync.Mutex
	engines map[string]*reference.Engine
}

const labLease = 300 * time.Millisecond

// labWorkers is how many cases a test runs at a time: several tests do so beside
// each other, with the race detector and leases that are short for it.
const labWorkers = 4

func newLab(t testing.TB, f fault) *lab {
	t.Helper()
	data, admin, err := memory.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- memory.Serve(ctx, data, admin, nil) }()
	l := &lab{fault: f, addr: data.Addr().String(), admin: memory.Admin{Addr: admin.Addr().String()}, engines: map[string]*reference.Engine{}}
	t.Cleanup(func() {
		for _, e := range l.engines {
			e.Close()
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l
}

func (l *lab) backend() reference.Backend {
	b := memory.Dial(l.addr, &l.fault.offers)
	if l.fault.backend != nil {
		b = l.fault.backend(b)
	}
	return b
}

func (l *lab) engine(node string) (*reference.Engine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.engines[node]; e != nil {
		return e, nil
	}
	e, err := reference.New(l.backend(), &reference.Options{Lease: labLease, Reentrant: l.fault.reentrant})
	if err == nil {
		l.engines[node] = e
	}
	return e, err
}

// shared is a client of an engine that others use too.
type shared struct{ lockspec.Client }

func (shared) Close() error { return nil }

func (l *lab) Open(_ context.Context, node string) (lockspec.Client, error) {
	e, err := l.engine(node)
	if err != nil {
		return nil, err
	}
	var c lockspec.Client = shared{e.Client()}
	if l.fault.client != nil {
		c = l.fault.client(c)
	}
	return c, nil
}

func (l *lab) Describe() lockspec.Description {
	e, err := l.engine("description")
	if err != nil {
		return lockspec.Description{Name: err.Error()}
	}
	d := e.Client().(lockspec.Describer).Describe()
	if l.fault.claims != nil {
		l.fault.claims(&d)
	}
	return d
}

func (l *lab) Requests(ctx context.Context, op, key string) (int, error) {
	return l.admin.Count(ctx, memory.Match{Op: op, Key: key})
}

func (l *lab) Interfere(ctx context.Context, what contract.Interference, op, key string, times int) (contract.Struck, error) {
	id, err := l.admin.Inject(ctx, memory.Fault(what), memory.Match{Op: op, Key: key}, times)
	return labStruck{l.admin, id}, err
}

type labStruck struct {
	admin memory.Admin
	id    int64
}

func (s labStruck) Await(ctx context.Context) error {
	end, _ := ctx.Deadline()
	return s.admin.Await(ctx, s.id, time.Until(end))
}

func (s labStruck) Lift(ctx context.Context) error {
	if err := s.admin.Lift(ctx, s.id); !errors.Is(err, lockspec.ErrNotHeld) {
		return err
	}
	return nil
}

func (l *lab) Evict(ctx context.Context, key string) error { return l.admin.Evict(ctx, key) }
func (l *lab) Empty(ctx context.Context) error             { return l.admin.Restart(ctx) }
func (l *lab) Restart(ctx context.Context) error           { return l.admin.Restart(ctx) }
func (l *lab) Stop(ctx context.Context) error              { return l.admin.Stall(ctx) }
func (l *lab) Continue(ctx context.Context) error          { return l.admin.Resume(ctx) }

func (l *lab) Inspect(ctx context.Context, key string) ([]contract.Holder, error) {
	states, err := l.admin.Inspect(ctx, key)
	var all []contract.Holder
	for _, s := range states {
		all = append(all, contract.Holder{Owner: s.Owner, Token: s.Token})
	}
	return all, err
}

func (l *lab) Seed(ctx context.Context, key, owner string, lease time.Duration) error {
	_, err := l.admin.Seed(ctx, key, owner, lease)
	return err
}

// check runs some cases of the contract against the harness.
func check(t testing.TB, h contract.Harness, ids ...string) (*result.Report, error) {
	return contract.Check(t.Context(), h, &contract.Options{Lease: labLease, Seed: 1, Workers: labWorkers,
		Only: func(c *contract.Case) bool { return slices.Contains(ids, c.ID) }})
}

// checkCase is the report of one case.
func checkCase(t testing.TB, h contract.Harness, id string) *result.Report {
	t.Helper()
	r, err := check(t, h, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func caseOf(t testing.TB, r *result.Report, id string) *result.Case {
	t.Helper()
	for i := range r.Cases {
		if r.Cases[i].ID == id {
			return &r.Cases[i]
		}
	}
	t.Fatalf("the report has no case %s", id)
	return nil
}

// openDriver is the lock of a driver process: the same engine, over the server
// that the URL names.
func openDriver(_ context.Context, at driver.Target) (driver.Lock, error) {
	e, err := reference.New(memory.Dial(at.Endpoints[0], nil), &reference.Options{Lease: labLease})
	return driven{e}, err
}

type driven struct{ engine *reference.Engine }

func (d driven) Describe() lockspec.Description {
	return d.engine.Client().(lockspec.Describer).Describe()
}
func (d driven) Client(string) (lockspec.Client, error) { return shared{d.engine.Client()}, nil }
func (d driven) Close() error                           { return d.engine.Close() }
