package contract

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func limitCases() []Case {
	return []Case{
		{ID: "I06", Group: "limits", Name: "a thousand keys are held at once", Level: ClientLevel, Since: "1",
			Why:    "a lock that needs a connection for each key runs out of them, and then must say so and not hang",
			Serial: true, Limit: time.Minute, Run: thousandKeys},
	}
}

const (
	manyKeys = 1000
	// holding is long enough that nothing has to be renewed meanwhile: what is
	// tested is the number, not the speed.
	holding = 30 * time.Second
)

// thousandKeys takes them from eight processes on four nodes. A lock that is
// held by sessions may run out of them, and says unavailable then.
func thousandKeys(ctx context.Context, e *Env) {
	const workers = 8
	lease := e.LeaseOf(max(holding, e.Lease))
	held := make([][]*workload.Tenure, workers)
	start := time.Now() // a tenure may be lost while the others are still taken
	var all sync.WaitGroup
	for n := range workers {
		p := e.MustProcess(ctx, fmt.Sprintf("n%d", n%4+1))
		all.Go(func() { held[n] = e.takeMany(ctx, p, n, manyKeys/workers, lease) })
	}
	all.Wait()
	for _, some := range held {
		if len(some) > 0 {
			t := some[e.Rand.IntN(len(some))]
			e.stands(ctx, start, t, about(t, checker.Renewal, "lost", "%s, one of %d keys that were held at once, was lost within its lease of %s", t.ID, manyKeys, t.Lease))
		}
	}
	for n := range workers {
		all.Go(func() {
			for _, t := range held[n] {
				e.Expect("release of one of many keys", e.Release(ctx, t), lockspec.OK)
				t.Stop()
			}
		})
	}
	all.Wait()
}

// takeMany takes one key after the other, until the service has no room.
func (e *Env) takeMany(ctx context.Context, p *workload.Process, worker, count int, lease time.Duration) (held []*workload.Tenure) {
	for n := range count {
		t, err := p.Acquire(ctx, lockspec.Request{Key: e.Key(fmt.Sprintf("k%d-%d", worker, n)), Lease: lease, Renew: e.Renewal()})
		if err != nil {
			if e.Description.Class == lockspec.Session && lockspec.OutcomeOf(err) == lockspec.Unavailable {
				e.Story("worker %d was told unavailable after %d keys", worker+1, n)
				return held
			}
			e.Expect(fmt.Sprintf("acquire of a free key while %d others are held", n), err, lockspec.OK)
			return held
		}
		held = append(held, e.keep(t))
	}
	return held
}
