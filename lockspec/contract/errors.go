package contract

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func errorCases() []Case {
	return []Case{
		{ID: "H01", Group: "errors", Name: "a service that does not answer is unavailable, not busy and no elapsed wait", Level: HarnessLevel, Since: "1",
			Why:    "who is told busy believes that somebody does the work; in an outage nobody does",
			Serial: true, Run: downFromStart},
		{ID: "H02", Group: "errors", Name: "an outage during a wait is told apart from a key that stays held", Level: HarnessLevel, Since: "1",
			Why:   "a wait that ends in an outage and is reported as contention sends the operator the wrong way",
			Needs: []lockspec.Feature{lockspec.Wait}, Bound: "poll", Serial: true, Run: downDuringWait},
		{ID: "H03", Group: "errors", Name: "a cancelled call says so, and never busy", Level: ClientLevel, Since: "1",
			Why:   "a caller that gave up must not conclude that somebody holds the key",
			Needs: []lockspec.Feature{lockspec.Wait, lockspec.Cancel}, Run: cancelledSaysSo},
		{ID: "H05", Group: "errors", Name: "wrong credentials, missing storage or a read-only service end the wait", Level: HarnessLevel, Since: "1",
			Why: "what no retry can fix must not be retried for ever: the operator has to hear of it",
			Run: misconfigured},
		{ID: "H08", Group: "errors", Name: "a pooler that swaps sessions is noticed", Level: HarnessLevel, Since: "1",
			Why: "a lock that belongs to a session is lost, or another's, when a pooler hands the session on",
			Run: func(ctx context.Context, e *Env) { e.mustRefuse(ctx, ThroughPooler) }},
		{ID: "H09", Group: "errors", Name: "a replica or a standby is noticed", Level: HarnessLevel, Since: "1",
			Why:  "a lock taken on a replica excludes nobody on the primary",
			Long: true, Run: func(ctx context.Context, e *Env) { e.mustRefuse(ctx, AtReplica) }},
		{ID: "H10", Group: "errors", Name: "a loss says whether the lease ran out or another took the key", Level: HarnessLevel, Since: "1",
			Why:   "the one is a slow process, the other a broken promise; who cannot tell them apart fixes the wrong one",
			Needs: []lockspec.Feature{lockspec.LossSignal, lockspec.AutoRenew, lockspec.Renew}, Bound: "renew_every", Run: lossReasons},
	}
}

// downFromStart asks a service that answers nobody: with one attempt, and with
// a wait. Once it is back the key must be had.
func downFromStart(ctx context.Context, e *Env) {
	p, waiting := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n1")
	s := e.MustStop(ctx)
	unavailable := func(what string, p *workload.Process, r lockspec.Request) {
		if t, err := p.Acquire(ctx, r); !e.Expect(what, err, lockspec.Unavailable) && err == nil {
			_ = e.Release(ctx, e.keep(t))
		}
	}
	var both sync.WaitGroup
	both.Go(func() {
		unavailable("one attempt at a service that does not answer", p, e.ask("k", e.Renewal()))
	})
	if e.Description.Claims(lockspec.Wait) {
		r := e.ask("waited-for", e.Renewal())
		r.Wait = e.Lease
		both.Go(func() { unavailable("a wait for a service that does not answer", waiting, r) })
	}
	both.Wait()
	s.MustLift(ctx)
	e.mustBeFree(ctx, p, "k", e.Term(), time.Now(), orphan("after an outage in which nobody was granted it"))
}

// downDuringWait lets a wait see that the key is held, and the service stop
// then. Without an outage the same wait must end as timeout. With it, timeout
// is right only if the service was not asked again.
func downDuringWait(ctx context.Context, e *Env) {
	p := e.MustProcess(ctx, "n1")
	key := e.Key("k")
	e.MustSeed(ctx, key, "stranger", time.Minute)
	r := e.ask("k", e.Renewal())
	r.Wait = e.Lease / 2
	_, err := p.Acquire(ctx, r)
	e.Expect("a wait for a key that stays held", err, lockspec.Timeout)

	r.Wait = e.Description.Bounds.Poll + 2*e.Lease
	before := e.MustRequests(ctx, "acquire", key)
	answered := make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, r)
		answered <- err
	}()
	if !e.awaitRequests(ctx, "acquire", key, before, e.Lease+5*time.Second) {
		e.Inconclusive("the wait asked nothing of the service")
		e.stop()
	}
	e.MustSleep(ctx, e.Lease/20) // the answer is on its way
	asked := e.MustRequests(ctx, "acquire", key)
	s := e.MustStop(ctx)
	err = <-answered
	right := []lockspec.Outcome{lockspec.Unavailable}
	if e.MustRequests(ctx, "acquire", key) == asked {
		right = append(right, lockspec.Timeout)
	}
	e.Expect("a wait that an outage ended", err, right...)
	s.MustLift(ctx)
	e.MustEvict(ctx, key)
}

// cancelledSaysSo ends waits by a cancellation and by a deadline.
func cancelledSaysSo(ctx context.Context, e *Env) {
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", e.Renewal()))
	waiter := e.MustProcess(ctx, "n2")
	ends := map[string]func() (context.Context, context.CancelFunc){
		"a cancellation": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			stop := time.AfterFunc(e.Lease/5, cancel)
			return ctx, func() { stop.Stop(); cancel() }
		},
		"a deadline": func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, e.Lease/5) },
	}
	for what, end := range ends {
		wait, cancel := end()
		r := e.ask("k", e.Renewal())
		r.Wait = lockspec.NoLimit
		got, err := waiter.Acquire(wait, r)
		cause := wait.Err()
		cancel()
		if err == nil {
			_ = e.Release(ctx, e.keep(got)) // what it overlaps is the checker's to say
			e.stop()
		}
		f := checker.Finding{Kind: checker.Contract, Rule: "cancelled", Key: t.Key, Tenures: []string{t.ID}, Events: []int64{t.Granted()}}
		switch {
		case errors.Is(err, lockspec.ErrBusy) || errors.Is(err, lockspec.ErrTimeout):
			f.Message = "a wait that was ended by " + what + " answered that the key is held: " + err.Error()
			e.accuse(f)
		case cause != nil && !errors.Is(err, cause):
			f.Message = "a wait that was ended by " + what + " does not match the context's error: " + err.Error()
			e.accuse(f)
		}
	}
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
}

// misconfigured waits without a limit at every wrong place that the harness
// has: the answer is an error that is no contention, and it comes.
func misconfigured(ctx context.Context, e *Env) {
	power[Misdirector](e, "misconfigure a client")
	tried := 0
	for _, what := range []Misdirection{WrongCredentials, MissingStorage, ReadOnly} {
		if c, err := e.misdirected(ctx, what); err == nil {
			tried++
			e.refused(ctx, c, what, lockspec.Config, lockspec.Unavailable)
		} else if !errors.Is(err, lockspec.ErrUnsupported) {
			e.mustWork(ctx, string(what), err)
		}
	}
	if tried == 0 {
		e.MustUnsupported("harness cannot misconfigure a client in any of the ways that are tested")
	}
}

// mustRefuse opens a client at one wrong place: no retry can fix that.
func (e *Env) mustRefuse(ctx context.Context, what Misdirection) {
	p, err := e.misdirected(ctx, what)
	e.mustWork(ctx, "bring a client "+string(what), err)
	e.refused(ctx, p, what, lockspec.Config)
}

func (e *Env) misdirected(ctx context.Context, what Misdirection) (*workload.Process, error) {
	c, err := power[Misdirector](e, "bring a client "+string(what)).OpenAt(ctx, what)
	if err != nil {
		return nil, err
	}
	return e.adopt("misdirected", c, nil), nil
}

// refused bounds the wait by the case, not by the request: an endless retry is
// then a hang, and a finding.
func (e *Env) refused(ctx context.Context, p *workload.Process, what Misdirection, right ...lockspec.Outcome) {
	r := e.ask(string(what), e.Renewal())
	if e.Description.Claims(lockspec.Wait) {
		r.Wait = lockspec.NoLimit
	}
	wait, cancel := context.WithTimeout(ctx, 2*e.Lease+2*time.Second)
	defer cancel()
	asked := time.Now()
	t, err := p.Acquire(wait, r)
	f := checker.Finding{Kind: checker.Contract, Rule: "misconfigured", Key: r.Key}
	switch {
	case err == nil:
		_ = e.Release(ctx, e.keep(t))
		f.Message = "a key was granted to a client " + string(what)
		e.accuse(f)
	case wait.Err() != nil && ctx.Err() == nil:
		f.Rule, f.Message = "endless-retry", "a client "+string(what)+" was still trying when its time was up; no retry can help it"
		e.suspect(ctx, asked, f) // a service that answers nobody says nothing of it
	default:
		e.Expect("acquire by a client "+string(what), err, right...)
	}
}

// lossReasons lets one lease run out and gives the key of another away.
func lossReasons(ctx context.Context, e *Env) {
	e.mustBound("loss")
	p := e.MustProcess(ctx, "n1")
	expired, taken := e.MustAcquire(ctx, p, e.ask("expired", lockspec.RenewManual)), e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("taken", lockspec.RenewAuto))
	e.mustLeased(expired)
	since := time.Now()
	s := e.MustSeed(ctx, taken.Key, "stranger", time.Minute)
	e.mustLose(ctx, taken, since, e.lossSoon(taken.Lease), s.by(about(taken, checker.LossSignal, "too-late", "the key of %s was given to another", taken.ID)))
	e.mustLose(ctx, expired, since, expired.Lease+e.Description.Bounds.LossFor(expired.Lease), about(expired, checker.LossSignal, "too-late", "nobody renewed %s", expired.ID))
	e.MustEvict(ctx, taken.Key)
	e.causeIsLoss(expired)
	e.causeIsLoss(taken)
	one, other := expired.Reason(), taken.Reason()
	switch {
	case one == "" && other == "":
		e.MustUnsupported("the lock gives no reason for a loss")
	case one == other:
		f := s.by(about(taken, checker.Contract, "reasons-alike", "%s, whose lease ran out, and %s, whose key was given to another, were both lost for the reason %q",
			expired.ID, taken.ID, one))
		f.Tenures = []string{expired.ID, taken.ID}
		e.suspect(ctx, since, f) // one that was kept from renewing expired too
	}
}
