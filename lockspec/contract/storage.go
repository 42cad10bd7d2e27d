package contract

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// firstUsers empties the service, and lets 20 processes come at once on nodes
// that have never spoken to it: two for each of ten keys.
func firstUsers(ctx context.Context, e *Env) {
	const users = 20
	var processes []*workload.Process
	for i := range users {
		processes = append(processes, e.MustProcess(ctx, e.ownNode(fmt.Sprint(i%4+1))))
	}
	e.mustEmpty(ctx)
	var all sync.WaitGroup
	var mu sync.Mutex
	winners := map[string]int{}
	unknown := false
	start := make(chan struct{})
	for i, p := range processes {
		key := fmt.Sprintf("k%d", i%(users/2))
		all.Go(func() {
			<-start
			t, err := p.Acquire(ctx, e.ask(key, e.Renewal()))
			e.Expect("acquire by one of the first users", err, lockspec.OK, lockspec.Busy)
			mu.Lock()
			unknown = unknown || lockspec.OutcomeOf(err).Effect() == lockspec.Unknown
			if err == nil {
				winners[key]++
			}
			mu.Unlock()
			if err == nil {
				_ = workload.Sleep(ctx, 5*time.Millisecond)
				e.Expect("release by one of the first users", e.Release(ctx, e.keep(t)), lockspec.OK)
			}
		})
	}
	close(start)
	all.Wait()
	if !unknown && e.Description.Claims(lockspec.StrictTry) && len(winners) < users/2 {
		e.Fail(checker.Contract, "no-winner", "only %d of %d keys were granted to one of their first two users", len(winners), users/2)
	}
}

// foreignContent puts a key of a foreign owner into the service, and lets the
// lock do with it whatever it does with a held key.
func foreignContent(ctx context.Context, e *Env) {
	const owner = "a-stranger"
	one, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	e.MustSeed(ctx, e.Key("k"), owner, 20*e.Lease+callBound)
	before := e.MustInspect(ctx, e.Key("k"))
	start := time.Now()
	for _, p := range []*workload.Process{one, other, one} {
		e.expectBusy(ctx, "a key that a stranger holds", p, "k")
	}
	if e.Description.Claims(lockspec.Wait) {
		r := e.ask("k", e.Renewal())
		r.Wait = e.Lease / 5
		t, err := one.Acquire(ctx, r)
		if err == nil {
			_ = e.Release(ctx, e.keep(t))
		}
		e.Expect("a wait for a key that a stranger holds", err, lockspec.Timeout)
	}
	after := e.MustInspect(ctx, e.Key("k"))
	if time.Since(start) < 20*e.Lease && !slices.Equal(before, after) {
		e.FailWith(checker.Finding{Kind: checker.Contract, Rule: "foreign-content", Level: checker.Service, Key: e.Key("k"),
			Message: fmt.Sprintf("a key that a stranger holds was %v before others asked for it and %v afterwards", before, after)})
	}
}
