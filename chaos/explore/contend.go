package explore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// contender is one node's process that takes the key in turns. What it does in
// each turn is drawn.
type contender struct {
	r       *run
	rng     *rand.Rand
	node    string
	process *workload.Process
}

// run takes the turns. A node that was killed is started anew.
func (c *contender) run(ctx context.Context, turns int) {
	deadline := c.r.world.now() + time.Duration(12+4*turns*c.r.o.Size.Nodes)*c.r.plan.lease
	for held := 0; held < turns && c.r.world.now() < deadline; {
		c.sleep(ctx, c.r.plan.lease/40, c.r.plan.lease/4)
		if c.process == nil || c.r.world.Node(c.node) != c.r.opened[c.node] {
			c.sleep(ctx, 0, c.r.plan.lease)
			c.process = c.r.open(c.node)
		}
		t, err := c.acquire(ctx)
		if err == nil {
			held++
			c.tenure(ctx, t)
			c.r.collect()
		}
	}
}

func (c *contender) sleep(ctx context.Context, least, most time.Duration) {
	_ = workload.Sleep(ctx, c.r.world.spaced(least+time.Duration(c.rng.Int64N(int64(most-least)+1))))
}

// odds is true once in n times.
func (c *contender) odds(n int) bool { return c.rng.IntN(n) == 0 }

// acquire asks once, or waits as long as the lock can; some waits are
// cancelled.
func (c *contender) acquire(ctx context.Context) (*workload.Tenure, error) {
	q := lockspec.Request{Key: theKey}
	if c.r.desc.Class != lockspec.Session {
		q.Lease = c.r.plan.lease
	}
	if c.r.claims(lockspec.AutoRenew) {
		q.Renew = lockspec.RenewAuto
	}
	if c.r.claims(lockspec.Renew) && c.odds(4) {
		q.Renew = lockspec.RenewManual
	}
	if !c.r.claims(lockspec.Wait) || c.odds(3) {
		return c.process.Acquire(ctx, q)
	}
	q.Wait = time.Duration((0.1 + 3*c.rng.Float64()) * float64(c.r.plan.lease))
	if c.odds(6) && c.r.claims(lockspec.Cancel) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.rng.Int64N(int64(q.Wait))))
		defer cancel()
	}
	return c.process.Acquire(ctx, q)
}

// tenure is one stay as holder: a few writes, questions and renewals, and a
// release.
func (c *contender) tenure(ctx context.Context, t *workload.Tenure) {
	lease := c.r.plan.lease
	for range 1 + c.rng.IntN(2) {
		work := time.Duration(c.rng.Int64N(int64(lease) / 4))
		if c.odds(6) {
			work = time.Duration((0.4 + 1.2*c.rng.Float64()) * float64(lease))
		}
		if over(t.Write(ctx, work)) {
			break
		}
		if c.odds(3) && over(t.Held(ctx)) {
			break
		}
		if c.odds(4) && c.r.claims(lockspec.Renew) && over(t.Renew(ctx, 0)) {
			break
		}
	}
	_ = t.Release(ctx)
	if c.odds(6) {
		_ = t.Release(ctx)
	}
	t.Stop()
}

func over(err error) bool {
	return err != nil && !errors.Is(err, lockspec.ErrUnsupported)
}
