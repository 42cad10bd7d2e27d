package contract_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// called is a client that offers a callback. rename breaks the keys of its
// sections.
type called struct {
	lockspec.Client
	rename func(string) string
}

func (c called) Section(ctx context.Context, r lockspec.Request, work time.Duration, entered func(lockspec.Lease), left func(lockspec.Stamp)) (int64, error) {
	if c.rename != nil {
		r.Key = c.rename(r.Key)
	}
	l, err := c.Client.Acquire(ctx, r)
	if err != nil {
		return 0, err
	}
	entered(l)
	timer := time.NewTimer(work)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	left(0)
	return l.(lockspec.Fenced).Token(), l.Release(context.WithoutCancel(ctx))
}

func callback(rename func(string) string) fault {
	return fault{client: func(c lockspec.Client) lockspec.Client { return called{c, rename} }}
}

// TestSections: a callback that takes the lock passes, in this process and in
// drivers, one that takes another fails, and where there is none nothing is said.
func TestSections(t *testing.T) {
	var n atomic.Int64
	for _, row := range []struct {
		name    string
		harness func(t *testing.T) contract.Harness
		want    result.Status
		found   string
	}{
		{"in this process", func(t *testing.T) contract.Harness { return newLab(t, callback(nil)) }, result.Pass, ""},
		{"in drivers", func(t *testing.T) contract.Harness { return newProcesses(t, "skewed") }, result.Pass, ""},
		{"no callback", func(t *testing.T) contract.Harness { return newLab(t, fault{}) }, result.Unsupported, ""},
		{"a lock of its own for each", func(t *testing.T) contract.Harness {
			return newLab(t, callback(func(k string) string { return fmt.Sprint(k, "-", n.Add(1)) }))
		}, result.Fail, "overlap/"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for range 3 {
				r := checkCase(t, row.harness(t), "L01")
				k := caseOf(t, r, "L01")
				if k.Status == result.Inconclusive {
					t.Logf("undecided: %s", k.Reason)
					continue
				}
				if k.Status != row.want {
					t.Errorf("%s: %s", k.Status, k.Reason)
				}
				if row.found != "" && !slices.ContainsFunc(r.Findings, func(f result.Finding) bool {
					return strings.HasPrefix(string(f.Kind)+"/"+f.Rule, row.found)
				}) {
					t.Errorf("found %+v", r.Findings)
				}
				if row.want == result.Pass && k.Ops[string(history.Section)]["ok"] < 10 {
					t.Errorf("operations: %v", k.Ops)
				}
				return
			}
			t.Skip("undecided three times: this machine is too busy to say")
		})
	}
}
