package contract

import (
	"context"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func fencingCases() []Case {
	fenced := []lockspec.Feature{lockspec.Fencing}
	return []Case{
		{ID: "F01", Group: "fencing", Name: "tokens are positive and rise over a thousand grants of a key", Level: ClientLevel, Since: "1",
			Why:   "the resource tells a stale holder from the present one by nothing else",
			Needs: fenced, Limit: time.Minute, Long: true, Run: tokensRise},
		{ID: "F02", Group: "fencing", Name: "tokens rise across processes", Level: ClientLevel, Since: "1",
			Why:   "a counter that each process keeps for itself fences nobody off",
			Needs: fenced, Run: tokensRiseAcross},
		{ID: "F03", Group: "fencing", Name: "tokens rise across release, expiry and removal of the key", Level: HarnessLevel, Since: "1",
			Why:   "a counter that is stored with the lock starts anew when the lock is deleted",
			Needs: []lockspec.Feature{lockspec.Fencing, lockspec.Renew}, Bound: "takeover", Run: tokensRiseThrough},
		{ID: "F04", Group: "fencing", Name: "tokens rise across a restart of the service", Level: HarnessLevel, Since: "1",
			Why:   "the holder of before the restart still has its token, and works on",
			Needs: fenced, Serial: true, Run: tokensRiseAfterRestart},
		{ID: "F05", Group: "fencing", Name: "a token stays the same through renewals", Level: ClientLevel, Since: "1",
			Why:   "a holder whose token changes is refused by the resource, or refuses itself",
			Needs: fenced, Run: tokenStays},
		{ID: "F07", Group: "fencing", Name: "keys that look alike have tokens of their own", Level: ClientLevel, Since: "1",
			Why:   "where two keys share a counter or a name, one fences the other off",
			Needs: fenced, Run: tokensOfLookAlikes},
		{ID: "F08", Group: "fencing", Name: "tokens survive JSON numbers", Level: ClientLevel, Since: "1",
			Why:   "many a resource keeps numbers as doubles; two tokens that round to one are one to it",
			Needs: fenced, Run: tokensFitDoubles},
		{ID: "F11", Group: "fencing", Name: "tokens rise after the service has lost its counter, again and again", Level: HarnessLevel, Since: "1",
			Why:   "a bare counter starts at 1 after every loss, and a floor that is too coarse repeats itself",
			Needs: fenced, Serial: true, Run: tokensSurviveCounterLoss},
		{ID: "F12", Group: "fencing", Name: "a lock without tokens says so, and never gives 0 as one", Level: ClientLevel, Since: "1",
			Why: "a resource that is sent 0 by everybody accepts everybody",
			Run: noTokenIsNone},
	}
}

// grant takes a free key and gives it back.
func (e *Env) grant(ctx context.Context, p *workload.Process, key string) *workload.Tenure {
	t := e.MustAcquire(ctx, p, e.ask(key, e.Renewal()))
	if err := e.Release(ctx, t); err != nil {
		e.Expect("release by the holder", err, lockspec.OK)
		e.stop()
	}
	t.Stop()
	return t
}

// higher checks that a later grant has the higher token.
func (e *Env) higher(first, then *workload.Tenure, when string, strikes ...*Strike) {
	if then.Token > first.Token {
		return
	}
	f := about(then, checker.Fencing, "token-order", "%s was granted token %d after %s had been granted %d, %s", then.ID, then.Token, first.ID, first.Token, when)
	f.Tenures, f.Events = []string{first.ID, then.ID}, []int64{first.Granted(), then.Granted()}
	for _, s := range strikes {
		f = s.by(f)
	}
	e.accuse(f)
	e.stop()
}

// A slow lock is not kept at it for ever.
const (
	manyGrants   = 1000
	grantsBudget = 10 * time.Second
)

func tokensRise(ctx context.Context, e *Env) {
	p := e.MustProcess(ctx, "n1")
	start := time.Now()
	last := e.grant(ctx, p, "k")
	n := 1
	for ; n < manyGrants && time.Since(start) < grantsBudget; n++ {
		next := e.grant(ctx, p, "k")
		e.higher(last, next, "by the same process")
		last = next
	}
	if n < manyGrants {
		e.Story("%d grants of %d within %s", n, manyGrants, grantsBudget)
	}
}

func tokensRiseAcross(ctx context.Context, e *Env) {
	var processes []*workload.Process
	for n := range 4 {
		processes = append(processes, e.MustProcess(ctx, fmt.Sprintf("n%d", n+1)))
	}
	last := e.grant(ctx, processes[0], "k")
	for range 40 {
		next := e.grant(ctx, processes[e.Rand.IntN(len(processes))], "k")
		e.higher(last, next, "by whichever process")
		last = next
	}
}

// tokensRiseThrough ends tenures in every way there is. A tenure whose key was
// removed is given up before the next grant, so that nothing overlaps.
func tokensRiseThrough(ctx context.Context, e *Env) {
	a, b := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	released := e.grant(ctx, a, "k")
	left := e.MustAcquire(ctx, b, e.ask("k", lockspec.RenewManual))
	e.higher(released, left, "after a release")
	e.mustLeased(left)
	e.MustSleep(ctx, left.Lease+e.Description.Bounds.Takeover)
	removed := e.mustTakeOver(ctx, a, "k", time.Now(), 0)
	e.higher(left, removed, "after its lease had run out")
	s := e.MustEvict(ctx, removed.Key)
	_ = e.Release(ctx, removed)
	for range 3 {
		next := e.grant(ctx, b, "k")
		e.higher(removed, next, "after the key was removed", s)
	}
}

// tokensRiseAfterRestart restarts the service under a holder, who gives up
// before the next grant.
func tokensRiseAfterRestart(ctx context.Context, e *Env) {
	e.acrossRestart(ctx, "n1", "n2", "after a restart")
}

// tokensSurviveCounterLoss restarts between grants that follow each other as
// fast as the service allows.
func tokensSurviveCounterLoss(ctx context.Context, e *Env) {
	for range 5 {
		e.acrossRestart(ctx, "n1", "n1", "after the service had lost its counter")
	}
}

func (e *Env) acrossRestart(ctx context.Context, before, after, when string) {
	p := e.MustProcess(ctx, before)
	t := e.MustAcquire(ctx, p, e.ask("k", e.Renewal()))
	s := e.MustRestart(ctx)
	_ = e.Release(ctx, t)
	if before != after {
		p = e.MustProcess(ctx, after)
	}
	// A service that persists its keys may keep this one for a lease.
	wait, cancel := context.WithTimeout(ctx, 2*e.Term()+max(e.Description.Bounds.Takeover, e.Term())+5*time.Second)
	defer cancel()
	next, err := workload.AcquireSoon(wait, p, e.ask("k", e.Renewal()), e.Lease/20)
	if err != nil {
		e.Inconclusive("nobody got the key after the restart: %v", err)
		e.stop()
	}
	e.higher(t, e.keep(next), when, s)
	_ = e.Release(ctx, next)
}

// tokenStays writes through two leases, which are renewed: by itself where
// claimed, else by hand. (Each write's token is compared with the grant's.)
func tokenStays(ctx context.Context, e *Env) {
	start := time.Now()
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", e.Renewal()))
	byHand := e.Description.Claims(lockspec.Renew)
	if t.Lease == 0 || !byHand && e.Renewal() != lockspec.RenewAuto {
		e.MustUnsupported("the lock renews nothing")
	}
	for range 6 {
		e.MustSleep(ctx, t.Lease/3)
		if byHand {
			e.Expect("a renewal by the holder", t.Renew(ctx, 0), lockspec.OK)
		}
		if !e.stands(ctx, start, t, about(t, checker.Renewal, "lost", "%s was renewed and lost", t.ID)) {
			e.stop()
		}
		if f, ok := t.Handle().(lockspec.Fenced); !ok || f.Token() != t.Token {
			e.accuse(about(t, checker.Fencing, "token-changed", "%s was granted token %d, and after a renewal its handle has another or none", t.ID, t.Token))
		}
	}
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
}

// lookAlikes are keys that a careless mapping makes one, and names that a
// counter kept beside a key may have.
var lookAlikes = []string{"a/b", "a//b", "a/b/", "a:b", "a_b", "a b", "a+b", "a%2Fb", "A/B", "a/b:fence", "a/b:token", "fence:a/b", "{a/b}", "a/b.token"}

// tokensOfLookAlikes holds all of them at once, twice.
func tokensOfLookAlikes(ctx context.Context, e *Env) {
	p := e.MustProcess(ctx, "n1")
	last := map[string]*workload.Tenure{}
	for range 2 {
		var held []*workload.Tenure
		for _, key := range lookAlikes {
			t, err := p.Acquire(ctx, e.askFor(key, 4*e.Lease))
			if lockspec.OutcomeOf(err) == lockspec.InvalidKey {
				continue // a key that is refused is mapped to no other
			}
			if !e.Expect(fmt.Sprintf("acquire of %q while keys like it are held", key), err, lockspec.OK) {
				e.stop()
			}
			held = append(held, e.keep(t))
			if before := last[key]; before != nil {
				e.higher(before, t, "with keys like it in between")
			}
			last[key] = t
		}
		for _, t := range held {
			e.Expect("release of one of many keys alike", e.Release(ctx, t), lockspec.OK)
		}
	}
}

// exact is the largest number up to which every integer is a double.
const exact = 1 << 53

// tokensFitDoubles takes what a double makes of each token. Above 2^53 a lock
// is right as long as its tokens stay apart.
func tokensFitDoubles(ctx context.Context, e *Env) {
	p := e.MustProcess(ctx, "n1")
	last := e.grant(ctx, p, "k")
	for range 10 {
		next := e.grant(ctx, p, "k")
		if float64(next.Token) <= float64(last.Token) && next.Token > last.Token {
			f := about(next, checker.Fencing, "token-lost-in-double", "tokens %d of %s and %d of %s are one number to whoever keeps numbers as doubles, JSON parsers among them",
				last.Token, last.ID, next.Token, next.ID)
			f.Tenures, f.Events = []string{last.ID, next.ID}, []int64{last.Granted(), next.Granted()}
			e.accuse(f)
			e.stop()
		}
		last = next
	}
	if last.Token > exact {
		e.Story("tokens are above 2^53 (%d): they survive JSON as strings only", last.Token)
	}
}

// noTokenIsNone looks at a handle: a lock that claims tokens gives one, a lock
// that does not offers none. (That a token is positive is checked with every
// grant.)
func noTokenIsNone(ctx context.Context, e *Env) {
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", e.Renewal()))
	claimed := e.Description.Claims(lockspec.Fencing)
	switch {
	case claimed && !t.HasToken:
		e.accuse(about(t, checker.Fencing, "no-token", "%s was granted without a token, and fencing is claimed", t.ID))
	case !claimed && t.HasToken:
		e.accuse(about(t, checker.Fencing, "token-unclaimed", "%s offers the token %d, and no fencing is claimed: nobody knows what it is worth", t.ID, t.Token))
	}
	e.Expect("a write by the holder", t.Write(ctx, 0), lockspec.OK)
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
}
