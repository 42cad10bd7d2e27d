package contract

import (
	"context"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func permitCases() []Case {
	return []Case{
		{ID: "J05", Group: "primitives", Name: "no more permits are out than there are, and a crashed holder's comes back", Level: ClientLevel, Since: "1",
			Why:   "one worker too many is what the limit is for; a permit that is never given back makes the limit smaller every time",
			Needs: []lockspec.Feature{lockspec.Permits}, Bound: "takeover", Limit: 60 * time.Second, Run: permits},
	}
}

// permits is how many a key has, where the lock claims any.
func (e *Env) permits() int {
	if !e.Description.Claims(lockspec.Permits) {
		return 0
	}
	return e.Description.Capacity
}

func (e *Env) askCount(key string, n int) lockspec.Request {
	r := e.ask(key, e.Renewal())
	r.Count = n
	return r
}

func permits(ctx context.Context, e *Env) {
	k := e.permits()
	held := e.takeOneEach(ctx, "k", min(k, 16), k)
	other, third := e.MustProcess(ctx, "n2"), e.MustProcess(ctx, "n3")
	e.expectRefusal(ctx, "a key without free permits", other, e.askCount("k", 1))
	e.Expect("release of a permit", e.Release(ctx, held[0]), lockspec.OK)
	held[0] = e.MustAcquire(ctx, other, e.askCount("k", k-len(held)+1))
	e.expectRefusal(ctx, "a key whose free permit was taken again", third, e.askCount("k", 1))
	for _, t := range held {
		e.expectRefusal(ctx, "all permits while some are out", third, e.askCount("k", k))
		e.Expect("release of a permit", e.Release(ctx, t), lockspec.OK)
	}
	all := e.MustAcquire(ctx, other, e.askCount("k", k))
	e.expectRefusal(ctx, "a permit while one holds them all", third, e.askCount("k", 1))
	e.Expect("release of all permits", e.Release(ctx, all), lockspec.OK)
	e.crowd(ctx, "crowd", 2*min(k, 4)+2, func(n int) lockspec.Request { return e.askCount("crowd", 1+n%k) })
	e.crashedPermit(ctx, k)
}

// takeOneEach lets n processes take the k permits of a key: one each, the first
// of them what is too many for that.
func (e *Env) takeOneEach(ctx context.Context, key string, n, k int) (held []*workload.Tenure) {
	for i := range n {
		count := 1
		if i == 0 {
			count = k - n + 1
		}
		p := e.MustProcess(ctx, fmt.Sprintf("n%d", i%4+1))
		held = append(held, e.MustAcquire(ctx, p, e.askCount(key, count)))
	}
	return held
}

// crashedPermit: the others hold all but one permit all the while, so that only
// the crashed holder's can be had.
func (e *Env) crashedPermit(ctx context.Context, k int) {
	node := e.ownNode("holder")
	crashed, next := e.MustProcess(ctx, node), e.MustProcess(ctx, "n2")
	r := e.askCount("crash", 1)
	_, processes := e.harness.(NodeHost)
	if !processes {
		if !e.Description.Claims(lockspec.Renew) {
			e.Story("no permit could be left behind: harness cannot run nodes as processes, and no lease can be left to run out")
			return
		}
		r.Renew = lockspec.RenewManual
	}
	old := e.MustAcquire(ctx, crashed, r)
	var rest *workload.Tenure
	if k > 1 {
		rest = e.MustAcquire(ctx, e.MustProcess(ctx, "n3"), e.askCount("crash", k-1))
	}
	if processes {
		e.mustKill(ctx, node)
	}
	t := e.mustTakeOverWhat(ctx, next, e.askCount("crash", 1), time.Now(), old.Lease)
	e.Expect("release by the successor", e.Release(ctx, t), lockspec.OK)
	if rest != nil {
		e.Expect("release of the other permits", e.Release(ctx, rest), lockspec.OK)
	}
}
