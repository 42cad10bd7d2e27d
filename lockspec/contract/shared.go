package contract

import (
	"context"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func sharedCases() []Case {
	shared := []lockspec.Feature{lockspec.Shared}
	return []Case{
		{ID: "J03", Group: "primitives", Name: "readers share a key, a writer has it alone", Level: ClientLevel, Since: "1",
			Why:   "a writer among readers tears what they read; readers who exclude each other had better take a mutex",
			Needs: shared, Run: readersAndWriter},
		{ID: "J04", Group: "primitives", Name: "readers who come and go do not starve a waiting writer", Level: ClientLevel, Since: "1",
			Why:   "where there is always a reader, the update that they all wait for never comes",
			Needs: []lockspec.Feature{lockspec.Shared, lockspec.Wait}, Run: writerAmongReaders},
	}
}

func (e *Env) askMode(key string, m lockspec.Mode) lockspec.Request {
	r := e.ask(key, e.Renewal())
	r.Mode = m
	return r
}

// expectRefusal tries what must be busy now; the case ends where it is not.
func (e *Env) expectRefusal(ctx context.Context, what string, p *workload.Process, r lockspec.Request) {
	t, err := p.Acquire(ctx, r)
	if err == nil {
		_ = e.Release(ctx, e.keep(t))
	}
	if !e.Expect("acquire of "+what, err, lockspec.Busy) {
		e.Stop()
	}
}

// readersAndWriter lets no reader in behind a writer that was refused: a lock
// may keep those out for a while, for the writer's sake.
func readersAndWriter(ctx context.Context, e *Env) {
	readers := []*workload.Process{e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")}
	writer := e.MustProcess(ctx, "n3")
	var held []*workload.Tenure
	for _, p := range readers {
		held = append(held, e.MustAcquire(ctx, p, e.askMode("k", lockspec.Read)))
	}
	for _, t := range held {
		e.expectRefusal(ctx, "a key with readers by a writer", writer, e.askMode("k", lockspec.Write))
		e.Expect("release by a reader", e.Release(ctx, t), lockspec.OK)
	}
	t := e.MustAcquire(ctx, writer, e.askMode("k", lockspec.Write))
	e.expectRefusal(ctx, "a key with a writer by a reader", readers[0], e.askMode("k", lockspec.Read))
	e.expectRefusal(ctx, "a key with a writer by another writer", readers[2], e.askMode("k", lockspec.Write))
	e.Expect("release by the writer", e.Release(ctx, t), lockspec.OK)
	again := e.MustAcquire(ctx, readers[1], e.askMode("k", lockspec.Read))
	e.Expect("release by a reader after the writer", e.Release(ctx, again), lockspec.OK)
	e.crowd(ctx, "crowd", 8, func(n int) lockspec.Request {
		return e.askMode("crowd", []lockspec.Mode{lockspec.Read, lockspec.Read, lockspec.Write}[n%3])
	})
}

// crowd lets many try for one key, each by the clock of its own dice, and
// leaves it to the checker who was there with whom. what gives the request of
// the n-th draw.
func (e *Env) crowd(ctx context.Context, key string, contenders int, what func(draw int) lockspec.Request) {
	const rounds = 12
	var all sync.WaitGroup
	for i := range contenders {
		p := e.MustProcess(ctx, []string{"n1", "n2", "n3", "n4"}[i%4])
		rng := e.RandFor(i)
		all.Go(func() {
			for range rounds {
				t, err := p.Acquire(ctx, what(rng.IntN(1<<20)))
				if err == nil {
					_ = workload.Sleep(ctx, time.Duration(rng.IntN(int(3*time.Millisecond))))
					e.Expect("release by one of a crowd", e.Release(ctx, e.keep(t)), lockspec.OK)
				} else if !e.Expect("a try of "+key, err, lockspec.Busy) {
					return
				}
				_ = workload.Sleep(ctx, time.Duration(rng.IntN(int(3*time.Millisecond))))
			}
		})
	}
	all.Wait()
}

// writerAmongReaders: each reader enters before the one before it leaves, so
// that the key is never free unless the lock makes it so. A lock that holds new
// readers back does; one that does not is told apart from bad luck by the time.
func writerAmongReaders(ctx context.Context, e *Env) {
	readers := []*workload.Process{e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")}
	present := e.MustAcquire(ctx, readers[0], e.askMode("k", lockspec.Read))
	w := e.awaitWhat(ctx, e.MustProcess(ctx, "n3"), e.askMode("k", lockspec.Write), e.patience())
	defer e.leave(ctx, w)
	e.MustSleep(ctx, e.Lease/10) // the writer has asked
	within := e.Lease + 3*e.soon()
	for n := 1; time.Since(w.asked) < within+e.Stalled(ctx, w.asked); n++ {
		next, err := readers[n%2].Acquire(ctx, e.askMode("k", lockspec.Read))
		e.Expect("release by a reader while a writer waits", e.Release(ctx, present), lockspec.OK)
		if err != nil {
			if e.Expect("a reader's try while a writer waits", err, lockspec.Busy) {
				e.mustGet(ctx, w, time.Now(), e.soon(), "writer-starved", "a writer whose last reader has left")
				e.done(ctx, w)
			}
			return
		}
		present = e.keep(next)
		e.MustSleep(ctx, 10*time.Millisecond)
	}
	e.Expect("release by the last reader", e.Release(ctx, present), lockspec.OK)
	e.Fail(checker.Liveness, "writer-starved", "readers were let in for %s while a writer waited", within)
}
