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

func acquireCases() []Case {
	return []Case{
		{ID: "A01", Group: "acquire", Name: "a free key grants a live lease", Level: ClientLevel, Since: "1",
			Why: "nothing else means anything if a free key cannot be had, or if what was granted is not held",
			Run: freeKey},
		{ID: "A02", Group: "acquire", Name: "a held key is busy for another process, promptly", Level: ClientLevel, Since: "1",
			Why: "two replicas that both get the key run the job twice; one that hangs on a held key runs nothing",
			Run: heldKey},
		{ID: "A10", Group: "acquire", Name: "20 contenders in 4 processes, 80 acquisitions, no two at once", Level: ClientLevel, Since: "1",
			Why:   "mutual exclusion under contention is what a lock is for",
			Limit: 60 * time.Second, Run: contention},
	}
}

func freeKey(ctx context.Context, e *Env) {
	p := e.MustProcess(ctx, "n1")
	t := e.MustAcquire(ctx, p, lockspec.Request{Key: e.Key("k"), Lease: e.Lease, Renew: e.Renewal()})
	if e.Description.Claims(lockspec.HoldCheck) {
		e.Expect("held right after the grant", t.Held(ctx), lockspec.OK)
	}
	e.Expect("write right after the grant", t.Write(ctx, 0), lockspec.OK)
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	again := e.MustAcquire(ctx, p, lockspec.Request{Key: e.Key("k"), Lease: e.Lease, Renew: e.Renewal()})
	e.Expect("release of a second tenure by the same process", e.Release(ctx, again), lockspec.OK)
}

func heldKey(ctx context.Context, e *Env) {
	holder, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	r := lockspec.Request{Key: e.Key("k"), Lease: e.Lease, Renew: e.Renewal()}
	t := e.MustAcquire(ctx, holder, r)
	for range 3 {
		start := time.Now()
		_, err := other.Acquire(ctx, r)
		if !e.Expect("acquire of a held key by another process", err, lockspec.Busy) {
			e.Stop()
		}
		if took := time.Since(start); took > promptly(e.Lease) {
			e.Inconclusive("busy took %s; without a bound for it that is no failure", took.Round(time.Millisecond))
		}
	}
	if err := e.Release(ctx, t); err != nil {
		e.Expect("release by the holder", err, lockspec.OK)
	}
}

// promptly is how long one attempt may take on a machine that has nothing else
// to do.
func promptly(lease time.Duration) time.Duration { return max(lease, 2*time.Second) }

func contention(ctx context.Context, e *Env) {
	const processes, contenders, acquisitions = 4, 20, 80
	var all sync.WaitGroup
	held := make([]int, contenders)
	for i := range contenders {
		p := e.MustProcess(ctx, fmt.Sprintf("n%d", i%processes+1))
		rng := e.RandFor(i)
		all.Go(func() {
			held[i] = workload.Contend(ctx, p, rng, workload.Load{Key: e.Key("k"), Lease: e.Lease,
				Work: time.Millisecond, Count: acquisitions / contenders, Poll: 20 * time.Millisecond, Polls: true})
		})
	}
	all.Wait()
	total := 0
	for i, n := range held {
		total += n
		if n == 0 && ctx.Err() == nil {
			e.Fail(checker.Liveness, "starved", "contender %d of %d never got the key", i+1, contenders)
		}
	}
	if total < acquisitions {
		e.Inconclusive("only %d of %d acquisitions came about", total, acquisitions)
	}
}
