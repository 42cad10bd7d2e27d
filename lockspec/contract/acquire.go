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
		{ID: "A03", Group: "acquire", Name: "a held key is busy for its own holder", Level: ClientLevel, Since: "1",
			Why: "a worker that is granted again what it holds runs two jobs, and the first to finish frees the other's lock",
			Run: heldBySelf},
		{ID: "A04", Group: "acquire", Name: "a held key is busy for another worker of the same process", Level: ClientLevel, Since: "1",
			Why: "threads of one process are contenders too; a lock that knows only the process lets them all in",
			Run: heldByNeighbour},
		{ID: "A05", Group: "acquire", Name: "different keys do not contend", Level: ClientLevel, Since: "1",
			Why: "a lock that serializes what has nothing in common is a bottleneck and, with two keys, a deadlock",
			Run: differentKeys},
		{ID: "A06", Group: "acquire", Name: "of 64 racers at most one wins, and all others are told busy", Level: ClientLevel, Since: "1",
			Why:   "a check and a set that are two steps let two in at once, only when many ask together",
			Limit: 60 * time.Second, Run: race},
		{ID: "A07", Group: "acquire", Name: "two handles that share a connection exclude each other, and live apart", Level: ClientLevel, Since: "1",
			Why: "where the service knows the connection and not the handle, both are the owner, and one release ends both",
			Run: sharedConnection},
		{ID: "A09", Group: "acquire", Name: "a try of a key that is held for long answers at once", Level: ClientLevel, Since: "1",
			Why: "a try that turns into a wait stalls whoever meant to do something else",
			Run: tryOfLongHeld},
		{ID: "A10", Group: "acquire", Name: "20 contenders in 4 processes, 80 acquisitions, no two at once", Level: ClientLevel, Since: "1",
			Why:   "mutual exclusion under contention is what a lock is for",
			Limit: 60 * time.Second, Run: contention},
		{ID: "A11", Group: "acquire", Name: "the first use makes the storage it needs, also with 20 first users", Level: HarnessLevel, Since: "1",
			Why:    "on the first day of a new service its replicas all create the table, and all but one fail",
			Serial: true, Run: firstUsers},
		{ID: "A12", Group: "acquire", Name: "what another put under the key is left as it was", Level: HarnessLevel, Since: "1",
			Why: "a lock kept on a file, a row or a blob must not overwrite what that is for",
			Run: foreignContent},
		{ID: "A13", Group: "acquire", Name: "the key of a crashed holder is obtainable within the bound", Level: ClientLevel, Since: "1",
			Why:   "a crashed worker must not keep everybody out until an operator comes",
			Bound: "takeover", Run: crashedHolder},
	}
}

func freeKey(ctx context.Context, e *Env) {
	p := e.MustProcess(ctx, "n1")
	t := e.MustAcquire(ctx, p, e.ask("k", e.Renewal()))
	if e.Description.Claims(lockspec.HoldCheck) {
		e.Expect("held right after the grant", t.Held(ctx), lockspec.OK)
	}
	e.Expect("write right after the grant", t.Write(ctx, 0), lockspec.OK)
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	again := e.MustAcquire(ctx, p, e.ask("k", e.Renewal()))
	e.Expect("release of a second tenure by the same process", e.Release(ctx, again), lockspec.OK)
}

func heldKey(ctx context.Context, e *Env) {
	holder, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	t := e.MustAcquire(ctx, holder, e.ask("k", e.Renewal()))
	for range 3 {
		start := time.Now()
		e.expectBusy(ctx, "a held key by another process", other, "k")
		if took := time.Since(start); took > promptly(e.Lease) {
			e.Inconclusive("busy took %s; without a bound for it that is no failure", took.Round(time.Millisecond))
		}
	}
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
}

// promptly is how long one attempt may take on a machine that has nothing else
// to do.
func promptly(lease time.Duration) time.Duration { return max(lease, 2*time.Second) }

// expectBusy tries a key that is held now. The case ends where the answer is
// another: what was granted is given back, and what it overlaps is the
// checker's to say.
func (e *Env) expectBusy(ctx context.Context, what string, p *workload.Process, key string) {
	t, err := p.Acquire(ctx, e.ask(key, e.Renewal()))
	if err == nil {
		_ = e.Release(ctx, e.keep(t))
	}
	if !e.Expect("acquire of "+what, err, lockspec.Busy) {
		e.Stop()
	}
}

func heldBySelf(ctx context.Context, e *Env) {
	if e.Description.Claims(lockspec.Reentrant) {
		e.MustUnsupported("the lock is reentrant")
	}
	p := e.MustProcess(ctx, "n1")
	t := e.MustAcquire(ctx, p, e.ask("k", e.Renewal()))
	e.expectBusy(ctx, "a key by its own holder", p, "k")
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	again := e.MustAcquire(ctx, p, e.ask("k", e.Renewal()))
	e.Expect("release of a second tenure", e.Release(ctx, again), lockspec.OK)
}

func heldByNeighbour(ctx context.Context, e *Env) {
	holder, neighbour := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n1")
	t := e.MustAcquire(ctx, holder, e.ask("k", e.Renewal()))
	e.expectBusy(ctx, "a held key by another worker of the same process", neighbour, "k")
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	next := e.MustAcquire(ctx, neighbour, e.ask("k", e.Renewal()))
	e.Expect("release by the neighbour", e.Release(ctx, next), lockspec.OK)
}

func differentKeys(ctx context.Context, e *Env) {
	one, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	var held []*workload.Tenure
	for i := range 4 {
		for _, p := range []*workload.Process{one, other} {
			held = append(held, e.MustAcquire(ctx, p, e.askFor(fmt.Sprintf("k%d-%s", i, p.Node), 2*e.Lease)))
		}
	}
	for _, t := range held {
		e.Expect("release of one key of many", e.Release(ctx, t), lockspec.OK)
	}
}

// race lets 64 processes ask at the same moment. The winner holds until all
// have their answers. A quorum lock may let nobody win a round; within some, a
// winner must come.
func race(ctx context.Context, e *Env) {
	const racers, rounds = 64, 10
	var processes []*workload.Process
	for i := range racers {
		processes = append(processes, e.MustProcess(ctx, fmt.Sprintf("n%d", i%4+1)))
	}
	won := 0
	for round := range rounds {
		start := time.Now()
		winners, unknown := e.raceOnce(ctx, processes, "k")
		won += winners
		switch strict := e.Description.Claims(lockspec.StrictTry); {
		case unknown:
			e.Inconclusive("a racer was given no answer")
			return
		case winners > 1:
			// A winner's lease may have run out where the slowest answer took
			// longer; whether two held at once is the checker's to say.
			return
		case winners == 0 && strict:
			e.Fail(checker.Contract, "no-winner", "none of %d simultaneous tries of a free key won, in round %d; one is claimed to", racers, round+1)
			return
		case strict && round == 2 || !strict && won > 0:
			return
		}
		if winners == 0 { // what a quorum lock leaves behind is gone after a lease
			e.MustSleep(ctx, e.Term()-min(e.Term(), time.Since(start))+time.Duration(e.Rand.Int64N(int64(e.Lease))))
		}
	}
	e.Fail(checker.Liveness, "no-winner", "nobody won any of %d races for a free key", rounds)
}

func (e *Env) raceOnce(ctx context.Context, processes []*workload.Process, key string) (winners int, unknown bool) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var held []*workload.Tenure
	start := make(chan struct{})
	for _, p := range processes {
		all.Go(func() {
			<-start
			t, err := p.Acquire(ctx, e.ask(key, e.Renewal()))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				held = append(held, e.keep(t))
				return
			}
			unknown = unknown || lockspec.OutcomeOf(err).Effect() == lockspec.Unknown
			e.Expect("a try that lost a race", err, lockspec.Busy)
		})
	}
	close(start)
	all.Wait()
	for _, t := range held {
		e.Expect("release by the winner", e.Release(ctx, t), lockspec.OK)
	}
	return len(held), unknown
}

func sharedConnection(ctx context.Context, e *Env) {
	one, two, far := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	a := e.MustAcquire(ctx, one, e.ask("a", e.Renewal()))
	b := e.MustAcquire(ctx, two, e.ask("b", e.Renewal()))
	e.Expect("release of the first handle", e.Release(ctx, a), lockspec.OK)
	e.expectBusy(ctx, "a key whose neighbour on the same connection was released", far, "b")
	e.Expect("write by the other handle", b.Write(ctx, 0), lockspec.OK)
	e.Expect("release of the other handle", e.Release(ctx, b), lockspec.OK)
	for range 10 {
		if _, unknown := e.raceOnce(ctx, []*workload.Process{one, two}, "c"); unknown {
			return
		}
	}
}

// callBound is what a driver bounds every call by, beyond its wait. A lock of
// which nothing else is known must answer within it.
const callBound = 5 * time.Second

// tryOfLongHeld asks for a key whose lease is longer than any call may take.
func tryOfLongHeld(ctx context.Context, e *Env) {
	holder, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	r := e.ask("k", e.Renewal())
	r.Lease = e.LeaseOf(max(20*e.Lease, 3*callBound))
	t := e.MustAcquire(ctx, holder, r)
	defer e.Release(ctx, t)
	for range 3 {
		start := time.Now()
		_, err := other.Acquire(ctx, e.ask("k", e.Renewal()))
		if took := time.Since(start); took > callBound+e.Stalled(ctx, start) {
			e.Fail(checker.Contract, "slow-try", "a try of a held key took %s; it is no wait", took.Round(time.Millisecond))
			return
		}
		e.Expect("a try of a key that is held for long", err, lockspec.Busy)
	}
}

func contention(ctx context.Context, e *Env) {
	const processes, contenders, acquisitions = 4, 20, 80
	var all sync.WaitGroup
	held := make([]int, contenders)
	for i := range contenders {
		p := e.MustProcess(ctx, fmt.Sprintf("n%d", i%processes+1))
		rng := e.RandFor(i)
		all.Go(func() {
			held[i] = workload.Contend(ctx, p, rng, workload.Load{Key: e.Key("k"), Lease: e.LeaseOf(e.Lease), Unit: e.Lease,
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

// crashedHolder kills the holder's process or, in one process, abandons its
// lease. (That another is granted the key too soon is found by the checker.)
func crashedHolder(ctx context.Context, e *Env) {
	node := e.ownNode("holder")
	holder, next := e.MustProcess(ctx, node), e.MustProcess(ctx, "n2")
	var old *workload.Tenure
	if _, ok := e.harness.(NodeHost); ok {
		old = e.MustAcquire(ctx, holder, e.ask("k", e.Renewal()))
		e.mustKill(ctx, node)
	} else {
		if !e.Description.Claims(lockspec.Renew) {
			e.MustUnsupported("harness cannot run nodes as processes, and no lease can be left to run out")
		}
		old = e.MustAcquire(ctx, holder, e.ask("k", lockspec.RenewManual))
	}
	t := e.mustTakeOver(ctx, next, "k", time.Now(), old.Lease)
	e.Expect("release by the successor", e.Release(ctx, t), lockspec.OK)
}
