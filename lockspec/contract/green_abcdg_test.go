package contract_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestReferenceKeepsABCDG: the reference engine keeps every promise of these
// groups, over a server in this process and as processes. A machine that stalls
// may leave a case undecided, never accuse.
func TestReferenceKeepsABCDG(t *testing.T) {
	for _, row := range []struct {
		name    string
		harness func(t *testing.T) contract.Harness
		ids     []string
		without []string // what this harness has no power for
	}{
		{"in this process", func(t *testing.T) contract.Harness { return newLab(t, fault{}) },
			ofABCDG(), []string{"B13", "D15", "D17"}},
		{"renewed by hand", func(t *testing.T) contract.Harness { return newLab(t, byHand) },
			ofABCDG(), []string{"B08", "B13", "C07", "D15", "D17"}},
		{"nodes that are processes", func(t *testing.T) contract.Harness { return newProcesses(t, "skewed") },
			[]string{"A13", "B13"}, nil},
		{"waiters that poll, each for itself", func(t *testing.T) contract.Harness { return newLab(t, pollers) },
			[]string{"D01", "D02", "D09", "D10", "D11", "D12"}, nil},
		{"held by a session", func(t *testing.T) contract.Harness { return newLab(t, fault{claims: sessionClass}) },
			[]string{"B12"}, nil},
		{"told of releases", func(t *testing.T) contract.Harness { return newMuted(newLab(t, fault{}), 50*time.Millisecond) },
			[]string{"D15"}, nil},
		{"sessions of waiters", func(t *testing.T) contract.Harness { return newSessions(newLab(t, fault{}), false) },
			[]string{"D17"}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			for open, tries := row.ids, 3; len(open) > 0; tries-- {
				if tries == 0 {
					t.Fatalf("undecided three times: %v", open)
				}
				open = undecided(t, row.harness(t), open, row.without)
			}
		})
	}
}

// byHand is the engine as a lock that renews nothing by itself.
var byHand = fault{
	client: func(c lockspec.Client) lockspec.Client {
		return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
			r.Renew = lockspec.RenewManual
			return c.Acquire(ctx, r)
		}}
	},
	claims: func(d *lockspec.Description) { d.Features = without(d.Features, lockspec.AutoRenew) },
}

// pollers is the engine as a lock whose waiters know nothing of each other.
var pollers = fault{
	client: func(c lockspec.Client) lockspec.Client {
		return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
			if r.Wait == 0 {
				return c.Acquire(ctx, r)
			}
			return polls(ctx, r, c.Acquire, 300*time.Millisecond)
		}}
	},
	claims: func(d *lockspec.Description) {
		d.Features = without(d.Features, lockspec.FIFO)
		d.Bounds.Poll = 400 * time.Millisecond
	},
}

func ofABCDG() (ids []string) {
	for _, k := range contract.Cases() {
		if k.Level != contract.APILevel && slices.Contains([]string{"A", "B", "C", "D", "G"}, k.ID[:1]) {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

// undecided runs the cases and gives those that came to no verdict.
func undecided(t *testing.T, h contract.Harness, ids, without []string) (open []string) {
	t.Helper()
	r, err := check(t, h, ids...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cases {
		switch {
		case c.Status == result.Pass, c.Status == result.NotRun && c.Reason == "filtered out":
		case c.Status == result.Unsupported && slices.Contains(without, c.ID):
		case c.Status == result.Inconclusive:
			t.Logf("%s: %s", c.ID, c.Reason)
			if c.ID != contract.ProbesID {
				open = append(open, c.ID)
			}
		default:
			t.Errorf("%s %s: %s: %s", c.ID, c.Name, c.Status, c.Reason)
		}
	}
	return open
}
