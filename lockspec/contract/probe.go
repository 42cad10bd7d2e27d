package contract

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
	"github.com/lockcheck/lockcheck/reports/result"
)

// ProbesID is the ID under which a report lists the probes of the claims.
const ProbesID = "P00"

// probe tries one claim before the suite. A feature that has no probe is left
// unproven: the cases that need it are its proof.
type probe struct {
	feature lockspec.Feature // empty: what every lock claims by being one
	needs   []lockspec.Feature
	leased  bool // n/a where the lock grants no lease
	run     func(ctx context.Context, e *Env) (history.Claim, string)
}

func probes() []probe {
	return []probe{
		{run: probeExclusion},
		{feature: lockspec.Fencing, run: probeTokens},
		{feature: lockspec.Renew, leased: true, needs: []lockspec.Feature{lockspec.Renew}, run: probeLease},
		{feature: lockspec.AutoRenew, leased: true, run: probeAutoRenew},
		{feature: lockspec.LossSignal, leased: true, needs: []lockspec.Feature{lockspec.Renew}, run: probeLoss},
		{feature: lockspec.HoldCheck, leased: true, needs: []lockspec.Feature{lockspec.Renew}, run: probeHoldCheck},
		{feature: lockspec.Cancel, needs: []lockspec.Feature{lockspec.Wait}, run: probeCancel},
	}
}

// probe runs every probe, with a history of their own, and notes what became
// of the claims. A false claim is a finding, once; the cases that depend on it
// are then not run.
func (c *check) probe(ctx context.Context) error {
	c.o.Progress.Phase("probing what the lock claims")
	for _, f := range c.desc.Features {
		c.report.Claims[f] = history.Unproven
	}
	c.head = c.header()
	rec, err := c.recorder(c.o.Probes)
	if err != nil {
		return err
	}
	c.work = &workload.Run{Recorder: rec}
	c.watch(rec)
	r := &result.Case{ID: ProbesID, Suite: result.ProbesSuite, Name: "what the lock claims is true", Status: result.Pass}
	k := &Case{ID: ProbesID, Suite: result.ProbesSuite, Name: r.Name, Limit: 30*time.Second + 10*term(c.desc, c.lease), Run: c.runProbes}
	e := c.newEnv(ctx, k)
	start := time.Now()
	c.log.open(k.ID)
	c.perform(ctx, e)
	r.Duration = int64(time.Since(start))
	c.settle(ctx, e)
	c.judge(r, e, &c.head)
	r.Story = nil
	c.noteClock(ctx)
	c.report.Cases = append(c.report.Cases, *r)
	c.unwatch()
	c.chooseProfile()
	return rec.Close()
}

// noteClock says where the stamps of a driver are not believed: its loss
// signals and renewals are then known only by their arrival.
func (c *check) noteClock(ctx context.Context) {
	host, ok := c.h.(NodeHost)
	if !ok {
		return
	}
	if n, err := host.Node(ctx, "n1"); err == nil && !n.ClockProven() {
		c.report.Notes = append(c.report.Notes, "the driver's clock is not proven: losses and renewals are judged by when they arrived")
	}
}

func (c *check) chooseProfile() {
	if c.report.Profile != "" {
		return
	}
	c.report.Profile = lockspec.Advisory
	if c.report.Claims[lockspec.Fencing] == history.Proven {
		c.report.Profile = lockspec.FencedResource
	}
}

// runProbes runs them side by side, each with keys of its own.
func (c *check) runProbes(ctx context.Context, e *Env) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for n, p := range probes() {
		if p.feature != "" && !c.desc.Claims(p.feature) || slices.ContainsFunc(p.needs, func(f lockspec.Feature) bool { return !c.desc.Claims(f) }) ||
			p.leased && c.desc.Class == lockspec.Session {
			continue
		}
		all.Go(func() {
			claim, why := history.Unproven, "interrupted"
			defer func() { // also where a Must ended the goroutine
				mu.Lock()
				defer mu.Unlock()
				c.noteClaim(e, p.feature, claim, why)
			}()
			start := time.Now()
			claim, why = p.run(ctx, e.sub(fmt.Sprintf("probe%d", n)))
			claim, why = e.believe(ctx, start, p.feature, claim, why)
		})
	}
	all.Wait()
}

// believe doubts that a claim is false where this machine stalled while it was
// tried: whoever cannot run cannot renew. Tokens need no time.
func (e *Env) believe(ctx context.Context, since time.Time, f lockspec.Feature, claim history.Claim, why string) (history.Claim, string) {
	if claim != history.False || f == lockspec.Fencing {
		return claim, why
	}
	if stalled := e.Stalled(ctx, since); stalled > e.unseen() {
		return history.Unproven, fmt.Sprintf("%s; this machine stalled for %s meanwhile", why, stalled.Round(time.Millisecond))
	}
	return claim, why
}

func (c *check) noteClaim(e *Env, f lockspec.Feature, claim history.Claim, why string) {
	if e.ctx.Err() != nil {
		claim, why = history.Unproven, interrupted
	}
	if f != "" {
		c.report.Claims[f] = claim
	}
	what := "the claim " + string(f)
	if f == "" {
		what = "the claim to be a lock"
	}
	switch claim {
	case history.False:
		e.FailWith(checker.Finding{Kind: checker.Contract, Rule: "false-claim", Level: checker.Service, Message: what + " is false: " + why})
		c.desc.Features = slices.DeleteFunc(slices.Clone(c.desc.Features), func(g lockspec.Feature) bool { return g == f })
	case history.Unproven:
		e.Inconclusive("%s could not be proven: %s", what, why)
		c.unproven = append(c.unproven, f)
	}
}

// sub is the same case with keys of its own.
func (e *Env) sub(name string) *Env {
	return &Env{Case: e.Case, Scene: e.Scene, Description: e.Description, Lease: e.Lease, Rand: e.Rand, ctx: e.ctx, harness: e.harness,
		prefix: e.prefix + name + "/", seed: e.seed, stalled: e.stalled, began: e.began, parent: e}
}

func probeExclusion(ctx context.Context, e *Env) (history.Claim, string) {
	a, b := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	start := time.Now()
	t, err := a.Acquire(ctx, e.ask("exclusion", e.Renewal()))
	if err != nil && e.Stalled(ctx, start) > e.unseen() {
		return history.Unproven, fmt.Sprintf("this machine stalled, and a free key could not be acquired: %v", err)
	}
	if err != nil {
		e.MustError(result.BlameTarget, "a free key could not be acquired: %v", err)
	}
	defer t.Stop()
	second, err := b.Acquire(ctx, e.ask("exclusion", e.Renewal()))
	if err == nil {
		second.Stop()
		return history.False, "two processes were granted one key"
	}
	if o := lockspec.OutcomeOf(err); o != lockspec.Busy {
		return history.Unproven, fmt.Sprintf("a held key answered %s: %v", o, err)
	}
	if err := e.Release(ctx, t); err != nil {
		return history.Unproven, fmt.Sprintf("release: %v", err)
	}
	return history.Proven, ""
}

func probeTokens(ctx context.Context, e *Env) (history.Claim, string) {
	a, b := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	last := int64(0)
	for n, p := range []*workload.Process{a, b, a} {
		t, err := p.Acquire(ctx, e.ask("tokens", e.Renewal()))
		if err != nil {
			return history.Unproven, err.Error()
		}
		_ = e.Release(ctx, t)
		t.Stop()
		switch {
		case !t.HasToken:
			return history.False, "a lease was granted without a token"
		case t.Token <= last:
			return history.False, fmt.Sprintf("grant %d got token %d after token %d", n+1, t.Token, last)
		}
		last = t.Token
	}
	return history.Proven, ""
}

// probeLease abandons a lease: another must get the key, no sooner than the
// lease that was granted and no later than the takeover bound after it. (That
// it came too soon is found by the checker.)
func probeLease(ctx context.Context, e *Env) (history.Claim, string) {
	a, b := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	t, err := a.Acquire(ctx, e.ask("lease", lockspec.RenewManual))
	if err != nil {
		return history.Unproven, err.Error()
	}
	defer t.Stop()
	granted := time.Now()
	if t.Lease == 0 {
		return history.False, "no lease was granted"
	}
	if err := t.Renew(ctx, 0); err != nil {
		return history.False, fmt.Sprintf("a renewal by the holder answered %s", lockspec.OutcomeOf(err))
	}
	bound := e.Description.Bounds.Takeover
	wait, cancel := context.WithTimeout(ctx, 2*t.Lease+max(bound, t.Lease))
	defer cancel()
	next, err := workload.AcquireSoon(wait, b, e.ask("lease", lockspec.RenewManual), e.Term()/50)
	if err != nil {
		return history.False, fmt.Sprintf("the key of an abandoned lease of %s was still not to be had after %s", t.Lease, time.Since(granted).Round(time.Millisecond))
	}
	_ = e.Release(ctx, next)
	next.Stop()
	return history.Proven, ""
}

func probeAutoRenew(ctx context.Context, e *Env) (history.Claim, string) {
	a, b := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	t, err := a.Acquire(ctx, e.ask("auto-renew", lockspec.RenewAuto))
	if err != nil {
		return history.Unproven, err.Error()
	}
	defer t.Stop()
	for range 10 {
		e.MustSleep(ctx, autoRenewEvery(t.Lease))
		intruder, err := b.Acquire(ctx, e.ask("auto-renew", lockspec.RenewAuto))
		if err == nil {
			_ = e.Release(ctx, intruder)
			intruder.Stop()
			return history.False, "another was granted the key while the holder ran"
		}
	}
	if err := t.Write(ctx, 0); err != nil {
		return history.Unproven, fmt.Sprintf("a write after more than a lease: %v", err)
	}
	_ = e.Release(ctx, t)
	return history.Proven, ""
}

// autoRenewEvery: ten times this are a bit more than three leases. Of long ones
// it is a bit more than one: case E01 takes more time.
func autoRenewEvery(lease time.Duration) time.Duration {
	if long(lease) {
		return lease * 11 / 100
	}
	return lease / 3
}

// probeLoss lets a lease run out unrenewed: its loss must be signalled.
func probeLoss(ctx context.Context, e *Env) (history.Claim, string) {
	t, err := e.MustProcess(ctx, "n1").Acquire(ctx, e.ask("loss", lockspec.RenewManual))
	if err != nil {
		return history.Unproven, err.Error()
	}
	defer t.Stop()
	limit := t.Lease + e.Description.Bounds.LossFor(t.Lease)
	select {
	case <-t.Lost():
		return history.Proven, ""
	case <-ctx.Done():
		return history.Unproven, "interrupted"
	case <-time.After(2 * limit): // twice: whether it is in time is the checker's to say
		return history.False, fmt.Sprintf("a lease of %s ran out and no loss was signalled within %s", t.Lease, 2*limit)
	}
}

func probeHoldCheck(ctx context.Context, e *Env) (history.Claim, string) {
	t, err := e.MustProcess(ctx, "n1").Acquire(ctx, e.ask("hold-check", lockspec.RenewManual))
	if err != nil {
		return history.Unproven, err.Error()
	}
	defer t.Stop()
	if err := t.Held(ctx); err != nil {
		return history.False, fmt.Sprintf("held right after the grant answered %s", lockspec.OutcomeOf(err))
	}
	e.MustSleep(ctx, t.Lease+max(e.Description.Bounds.LossFor(t.Lease), e.Description.Bounds.Takeover))
	switch o := lockspec.OutcomeOf(t.Held(ctx)); o {
	case lockspec.Lost, lockspec.NotHeld:
		return history.Proven, ""
	case lockspec.OK:
		return history.False, "held answered ok after the lease had run out"
	default:
		return history.Unproven, "held answered " + string(o)
	}
}

// probeCancel cancels a wait on a held key.
func probeCancel(ctx context.Context, e *Env) (history.Claim, string) {
	a, b := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	t, err := a.Acquire(ctx, e.ask("cancel", e.Renewal()))
	if err != nil {
		return history.Unproven, err.Error()
	}
	defer t.Stop()
	defer func() { _ = e.Release(ctx, t) }()
	wait, cancel := context.WithTimeout(ctx, e.Lease/5)
	defer cancel()
	r := e.ask("cancel", e.Renewal())
	r.Wait = lockspec.NoLimit
	_, err = b.Acquire(wait, r)
	late := time.Since(deadline(wait))
	switch o := lockspec.OutcomeOf(err); {
	case o != lockspec.Cancelled:
		return history.False, fmt.Sprintf("a cancelled wait answered %s", o)
	case late > e.Description.Bounds.Cancel+e.Lease:
		return history.False, fmt.Sprintf("a cancelled wait returned %s after it was cancelled", late)
	}
	return history.Proven, ""
}

func deadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}
