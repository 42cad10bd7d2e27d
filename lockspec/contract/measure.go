package contract

import (
	"context"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// Whoever measures a duration measures this machine too. A case therefore
// blames the lock only for what is left after everything by which the harness
// and its nodes were late meanwhile has been taken off; what lies between the
// bound and that is inconclusive.

// eps is what measuring a lease by two clocks may be wrong by.
func (e *Env) eps(lease time.Duration) time.Duration {
	rate := 0.001 + e.Description.Bounds.ClockRate
	return history.DefaultEps + time.Duration(rate*float64(lease))
}

// unseen is the stall that is too short to be recorded.
func (e *Env) unseen() time.Duration { return e.Lease / 10 }

// inTime judges what took so long, measured since then, against its bound; f is
// the finding if it is too long.
func (e *Env) inTime(ctx context.Context, since time.Time, took, bound time.Duration, f checker.Finding) bool {
	if took <= bound+e.eps(bound) {
		return true
	}
	f.Message += fmt.Sprintf("; it took %s, the bound is %s", took.Round(time.Microsecond), bound.Round(time.Microsecond))
	if stalled := e.Stalled(ctx, since); took <= bound+stalled+e.unseen() {
		e.Inconclusive("%s; this machine stalled for up to %s of it", f.Message, (stalled + e.unseen()).Round(time.Millisecond))
		return false
	}
	e.accuse(f)
	return false
}

// suspect notes a finding that a machine which stalled since then would explain.
func (e *Env) suspect(ctx context.Context, since time.Time, f checker.Finding) {
	if stalled := e.Stalled(ctx, since); stalled > e.unseen() {
		e.Inconclusive("%s; this machine stalled for %s meanwhile", f.Message, stalled.Round(time.Millisecond))
		return
	}
	e.accuse(f)
}

// accuse notes a finding for which every stall has been allowed; most are about
// what the service does.
func (e *Env) accuse(f checker.Finding) {
	f.Certainty = checker.Certain
	if f.Level == "" {
		f.Level = checker.Service
	}
	e.FailWith(f)
}

// about is a finding about a tenure, with its grant as evidence.
func about(t *workload.Tenure, kind checker.Kind, rule, format string, args ...any) checker.Finding {
	return checker.Finding{Kind: kind, Rule: rule, Key: t.Key, Tenures: []string{t.ID}, Events: []int64{t.Granted()},
		Message: fmt.Sprintf(format, args...)}
}

// by adds the strike that a finding follows from.
func (s *Strike) by(f checker.Finding) checker.Finding {
	f.Faults = append(f.Faults, s.event.ID)
	f.Events = append(f.Events, s.index)
	return f
}

// stands checks that a tenure which nothing has struck is held: a write by its
// holder is answered ok. f is the finding if it is not.
func (e *Env) stands(ctx context.Context, since time.Time, t *workload.Tenure, f checker.Finding) bool {
	err := t.Write(ctx, 0)
	switch lockspec.OutcomeOf(err) {
	case lockspec.Lost, lockspec.NotHeld:
		f.Message += fmt.Sprintf("; a write was answered %s", lockspec.OutcomeOf(err))
		e.suspect(ctx, since, f)
		return false
	}
	return e.Expect("a write by the holder", err, lockspec.OK)
}

// isOver checks that what was lost stays so: neither a check nor a write is
// answered ok. A lock that offers no check and signals no loss has nothing that
// a write could look at.
func (e *Env) isOver(ctx context.Context, t *workload.Tenure, f checker.Finding) {
	switch {
	case e.Description.Claims(lockspec.HoldCheck):
		e.over("held", t.Held(ctx), f)
	case !e.Description.Claims(lockspec.LossSignal):
		return
	}
	e.over("a write", t.Write(ctx, 0), f)
}

func (e *Env) over(what string, err error, f checker.Finding) {
	if err == nil {
		f.Message += fmt.Sprintf("; %s was answered ok afterwards", what)
		e.accuse(f)
		return
	}
	e.Expect(what+" after the loss", err, lockspec.Lost, lockspec.NotHeld)
}

// mustLose waits for the loss signal of a tenure that is due since then, and
// says how long it took. A signal that is late by far is missed for good.
func (e *Env) mustLose(ctx context.Context, t *workload.Tenure, since time.Time, bound time.Duration, f checker.Finding) time.Duration {
	limit := time.NewTimer(time.Until(since) + 2*bound + e.Lease)
	defer limit.Stop()
	select {
	case <-t.Lost():
	case <-ctx.Done():
		e.stop()
	case <-limit.C:
		f.Rule = "never"
		f.Message += "; it was never signalled"
		e.inTime(ctx, since, time.Since(since), bound, f)
		e.stop()
	}
	took := e.lostAfter(t, since)
	e.inTime(ctx, since, took, bound, f)
	return took
}

// lostAfter is how long after then a loss was raised; where no proven clock
// tells, how long after it was heard.
func (e *Env) lostAfter(t *workload.Tenure, since time.Time) time.Duration {
	heard := time.Since(since)
	if s, ok := t.Handle().(lockspec.LossStamper); ok {
		rec := e.Scene.Recorder()
		if at := rec.At(s.LostAt()); at != 0 {
			return min(heard, time.Duration(at-rec.Now())+time.Since(since))
		}
	}
	return heard
}

// lossSoon is how long after a tenure was taken from its holder the loss must
// be signalled: he learns of it by his next renewal.
func (e *Env) lossSoon(lease time.Duration) time.Duration {
	b := e.Description.Bounds
	return b.RenewEveryFor(lease) + b.LossFor(lease)
}

// mustBound ends the case unless the bound is promised.
func (e *Env) mustBound(names ...string) {
	for _, name := range names {
		if bounds[name](e.Description.Bounds) == 0 {
			e.MustUnsupported("no bound for %s", name)
		}
	}
}

// mustLeased ends the case where a tenure is held by a session.
func (e *Env) mustLeased(t *workload.Tenure) {
	if t.Lease == 0 {
		e.MustUnsupported("the lock granted no lease that could run out")
	}
}

// awaitRequests waits until more than n requests have reached the service and
// says whether they did within the time.
func (e *Env) awaitRequests(ctx context.Context, op, key string, n int, within time.Duration) bool {
	for start := time.Now(); ; {
		if e.MustRequests(ctx, op, key) > n {
			return true
		}
		if time.Since(start) > within {
			return false
		}
		e.MustSleep(ctx, e.Lease/50)
	}
}
