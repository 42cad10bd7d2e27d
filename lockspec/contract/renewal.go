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

func renewalCases() []Case {
	auto := []lockspec.Feature{lockspec.AutoRenew}
	autoLoss := []lockspec.Feature{lockspec.AutoRenew, lockspec.LossSignal}
	manual := []lockspec.Feature{lockspec.Renew}
	manualLoss := []lockspec.Feature{lockspec.Renew, lockspec.LossSignal}
	return []Case{
		{ID: "E01", Group: "renewal", Name: "a holder that runs keeps its key for six leases, a second tenure of its client for three", Level: ClientLevel, Since: "1",
			Why:  "work takes longer than the lease some day, and then two do it; a renewal that ends by itself, or that only a first tenure gets, is found out then",
			Long: true, Run: keepsKey},
		{ID: "E02", Group: "renewal", Name: "renewals come as often as promised, after a slow reply too", Level: HarnessLevel, Since: "1",
			Why:   "a renewal that comes late leaves no time to try again, and the first lost packet costs the lock",
			Needs: auto, Bound: "renew_every", Run: renewsOften},
		{ID: "E03", Group: "renewal", Name: "a tenure that the service dropped is signalled as lost within the bound, and the next one too", Level: HarnessLevel, Since: "1",
			Why:   "a holder that does not hear of its loss works on beside the next one",
			Needs: autoLoss, Bound: "renew_every", Run: droppedIsLost},
		{ID: "E04", Group: "renewal", Name: "a renewal that succeeds after the loss does not bring the tenure back", Level: HarnessLevel, Since: "1",
			Why:   "work was stopped because the lock was lost; a handle that says held again starts it unprotected",
			Needs: autoLoss, Bound: "loss", Run: lossIsSticky},
		{ID: "E07", Group: "renewal", Name: "a renewal that never answers does not postpone the loss; the next tenure is renewed again, and told again", Level: HarnessLevel, Since: "1",
			Why:   "a hung connection is how most locks are lost; one who waits for its answer learns it too late",
			Needs: autoLoss, Bound: "loss", Run: hungRenewal},
		{ID: "E08", Group: "renewal", Name: "one lost renewal is tried again in time and loses nothing", Level: HarnessLevel, Since: "1",
			Why:   "a single lost packet must not stop work that the lease still protects",
			Needs: auto, Bound: "tolerates", Run: transientFailure},
		{ID: "E09", Group: "renewal", Name: "a service that says another holds ends the tenure at once, without another try", Level: HarnessLevel, Since: "1",
			Why:   "trying again what is surely lost is time in which two work",
			Needs: autoLoss, Bound: "renew_every", Run: definiteRefusal},
		{ID: "E10", Group: "renewal", Name: "what was declared lost is free in the service within a lease", Level: ClientLevel, Since: "1",
			Why:   "a lock that its own holder gave up and nobody else can have stops everything",
			Needs: manualLoss, Bound: "takeover", Run: lostIsFree},
		{ID: "E11", Group: "renewal", Name: "a grant whose reply took longer than the lease is not handed out, nor left behind", Level: HarnessLevel, Since: "1",
			Why:   "the lease ran out on the way; whoever starts to work with it starts beside the next holder",
			Bound: "takeover", Run: lateGrant},
		{ID: "E12", Group: "renewal", Name: "a renewal never creates anew what has vanished", Level: HarnessLevel, Since: "1",
			Why:   "a former holder that writes itself in again shuts out whoever was about to take over, with an old token",
			Needs: manual, Run: vanishedStays},
		{ID: "E14", Group: "renewal", Name: "a lease that is too short or too long is refused, and leaves nothing behind", Level: ClientLevel, Since: "1",
			Why:   "a lease below what the lock can renew is lost at once; better to hear of it at the start",
			Bound: "lease_min", Run: leaseOutOfRange},
		{ID: "E15", Group: "renewal", Name: "a client's wall clock that is an hour off changes nothing", Level: ClientLevel, Since: "1",
			Why:   "a lock that compares wall clocks of two machines is as good as their time service",
			Needs: []lockspec.Feature{lockspec.ClockSkew}, Nodes: 3, Bound: "takeover", Run: wallClockOff},
		{ID: "E17", Group: "renewal", Name: "a tenure that nobody renews ends on time, one that is renewed by hand does not", Level: ClientLevel, Since: "1",
			Why:   "who renews by hand has to know that stopping is enough to let go, and renewing enough to keep",
			Needs: manual, Bound: "takeover", Run: manualMode},
	}
}

// keepsKey lets another ask for a key for six leases and a bit: a renewal that
// ends after so many times, or with a token of its own that runs out, outlives
// three. Beside it a client holds its second tenure for three, because what is
// set up once for a client may be torn down with its first. Of leases so long
// that this would take minutes it is half as many.
func keepsKey(ctx context.Context, e *Env) {
	if e.Description.Class != lockspec.Session && !e.Description.Claims(lockspec.AutoRenew) {
		e.MustUnsupported("%s is not claimed", lockspec.AutoRenew)
	}
	first, second := 6, 3
	if long(e.Term()) {
		first, second = 3, 2
		e.Story("leases are long: a first tenure was held for %d of them, a second for %d", first, second)
	}
	var both sync.WaitGroup
	both.Go(func() { e.mustLast(ctx, e.MustProcess(ctx, "n1"), "k", first) })
	both.Go(func() {
		p := e.MustProcess(ctx, "n1")
		t := e.MustAcquire(ctx, p, e.ask("again", e.Renewal()))
		e.MustSleep(ctx, min(e.span(t)/2, mostLease))
		e.Expect("release of a first tenure", e.Release(ctx, t), lockspec.OK)
		e.mustLast(ctx, p, "again", second)
	})
	both.Wait()
}

// mustLast has the process hold the key for so many leases and a quarter, while
// another asks for it four times in each.
func (e *Env) mustLast(ctx context.Context, p *workload.Process, key string, leases int) {
	start := time.Now()
	t := e.MustAcquire(ctx, p, e.ask(key, e.Renewal()))
	e.mustKeep(ctx, start, t, e.MustProcess(ctx, "n2"), 4*leases+1, e.span(t)/4, time.Time{})
	f := about(t, checker.Renewal, "lost", "%s renews by itself and was lost although its process ran", t.ID)
	if e.stands(ctx, start, t, f) {
		e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	}
}

// span is the lease of a tenure, or the case's where a session holds the key.
func (e *Env) span(t *workload.Tenure) time.Duration {
	if t.Lease == 0 {
		return e.Lease
	}
	return t.Lease
}

// mustKeep probes that a tenure keeps everybody else out; with sent, as long as
// the lease that counts from there.
func (e *Env) mustKeep(ctx context.Context, start time.Time, t *workload.Tenure, other *workload.Process, probes int, every time.Duration, sent time.Time) {
	for range probes {
		e.MustSleep(ctx, every)
		intruder, err := other.Acquire(ctx, lockspec.Request{Key: t.Key, Lease: e.LeaseOf(e.Lease), Renew: e.Renewal()})
		if err != nil {
			e.Expect("acquire of a held key", err, lockspec.Busy)
			continue
		}
		_ = e.Release(ctx, e.keep(intruder))
		if !sent.IsZero() {
			e.lapsed(t, sent, fmt.Sprintf("%s was granted the key", intruder.ID))
		}
		f := about(t, checker.Renewal, "overtaken", "%s was granted the key of %s, which was renewed and whose process ran", intruder.ID, t.ID)
		f.Tenures, f.Events = append(f.Tenures, intruder.ID), append(f.Events, intruder.Granted())
		e.suspect(ctx, start, f)
		e.stop()
	}
}

// renewsOften counts the renewals of three leases, or of two long ones, then
// holds one reply back and waits for the next.
func renewsOften(ctx context.Context, e *Env) {
	start := time.Now()
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", lockspec.RenewAuto))
	e.mustLeased(t)
	every := e.Description.Bounds.RenewEveryFor(t.Lease)
	before := e.MustRequests(ctx, "renew", t.Key)
	counted := time.Now()
	leases := time.Duration(3)
	if long(t.Lease) {
		leases = 2
	}
	e.MustSleep(ctx, leases*t.Lease)
	n := e.MustRequests(ctx, "renew", t.Key) - before
	took := time.Since(counted) - e.Stalled(ctx, counted)
	if want := int(took/(slack(every)+e.eps(every))) - 1; n < want {
		e.doubt(about(t, checker.Renewal, "too-seldom",
			"%s was renewed %d times within %s; one every %s is promised", t.ID, n, took.Round(time.Millisecond), every))
	}
	e.afterSlowReply(ctx, t, every)
	f := about(t, checker.Renewal, "lost", "%s was lost although no renewal of it failed", t.ID)
	if e.stands(ctx, start, t, f) {
		e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
	}
}

// slack is an interval with what timers and a round trip add to it.
func slack(every time.Duration) time.Duration { return every + every/10 }

// afterSlowReply holds back one reply for half of what the lock tolerates: the
// next renewal must not come later for it than by that.
func (e *Env) afterSlowReply(ctx context.Context, t *workload.Tenure, every time.Duration) {
	hold := e.Description.Bounds.Tolerates / 2
	if _, can := e.Power().(Interferer); !can || hold == 0 {
		return
	}
	s := e.MustInterfere(ctx, HoldReply, "renew", t.Key, 1)
	s.MustAwait(ctx, 2*every+e.Lease)
	struck, n := time.Now(), e.MustRequests(ctx, "renew", t.Key)
	e.MustSleep(ctx, hold)
	s.MustLift(ctx)
	if !e.awaitRequests(ctx, "renew", t.Key, n, 2*(every+hold)) {
		e.suspect(ctx, t.Asked, s.by(about(t, checker.Renewal, "too-seldom", "the reply to a renewal of %s took %s; no other renewal came within %s",
			t.ID, hold, 2*(every+hold))))
		e.stop()
	}
	e.inTime(ctx, struck, time.Since(struck), hold+slack(every)+e.Lease/20, s.by(about(t, checker.Renewal, "too-seldom",
		"the reply to a renewal of %s took %s; the next renewal came late", t.ID, hold)))
}

// droppedIsLost evicts a key under its holder, twice: a client that heard of its
// first loss must hear of the second. A neighbour's tenure, which nothing
// struck, must not be lost with them.
func droppedIsLost(ctx context.Context, e *Env) {
	e.mustBound("loss")
	p := e.MustProcess(ctx, "n1")
	start := time.Now()
	twin := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("twin", lockspec.RenewAuto))
	for range 2 {
		e.dropped(ctx, p)
	}
	e.stands(ctx, start, twin, about(twin, checker.LossSignal, "false", "%s was lost although another key was evicted", twin.ID))
	e.Expect("release of what was not struck", e.Release(ctx, twin), lockspec.OK)
}

func (e *Env) dropped(ctx context.Context, p *workload.Process) {
	t := e.MustAcquire(ctx, p, e.ask("k", lockspec.RenewAuto))
	evicted := time.Now()
	s := e.MustEvict(ctx, t.Key)
	e.mustLose(ctx, t, evicted, e.lossSoon(t.Lease), s.by(about(t, checker.LossSignal, "too-late",
		"the service dropped %s and its holder had to learn it by the next renewal", t.ID)))
	e.causeIsLoss(t)
	e.isOver(ctx, t, s.by(about(t, checker.LossSignal, "resurrected", "the loss of %s was signalled", t.ID)))
	_ = e.Release(ctx, t)
}

// causeIsLoss checks that the cause of a loss can be told from any other.
func (e *Env) causeIsLoss(t *workload.Tenure) {
	n, ok := t.Handle().(lockspec.Notifier)
	if !ok {
		return
	}
	if cause := n.Cause(); lockspec.OutcomeOf(cause) != lockspec.Lost {
		e.accuse(about(t, checker.Contract, "cause", "the loss of %s was signalled with the cause %v, which is no loss", t.ID, cause))
	}
}

// lossIsSticky holds the replies of renewals until the loss was signalled, and
// lets them in then: the service says "renewed".
func lossIsSticky(ctx context.Context, e *Env) {
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", lockspec.RenewAuto))
	e.mustLeased(t)
	s := e.MustInterfere(ctx, HoldReply, "renew", t.Key, -1)
	asked := time.Now()
	s.MustAwait(ctx, 2*t.Lease)
	e.mustLose(ctx, t, asked, t.Lease+e.Description.Bounds.LossFor(t.Lease), s.by(about(t, checker.LossSignal, "too-late",
		"no renewal of %s was answered any more", t.ID)))
	s.MustLift(ctx)
	e.MustSleep(ctx, t.Lease/4)
	e.isOver(ctx, t, s.by(about(t, checker.LossSignal, "resurrected", "the loss of %s was signalled before its renewal was answered", t.ID)))
}

// hungRenewal lets no renewal be answered, ever: the loss is due when the last
// lease that its holder knows of has ended. The same client must then be able
// to hold again, for longer than a lease, and must hear of that loss too.
func hungRenewal(ctx context.Context, e *Env) {
	p := e.MustProcess(ctx, "n1")
	t := e.MustAcquire(ctx, p, e.ask("k", lockspec.RenewAuto))
	e.mustLeased(t)
	s, granted := e.mustHang(ctx, t)
	again := e.mustHoldAgain(ctx, p, t, s, granted)
	start := time.Now()
	e.mustKeep(ctx, start, again, e.MustProcess(ctx, "n2"), 5, again.Lease/4, time.Time{})
	f := s.by(about(again, checker.Renewal, "lost", "%s, the tenure after one whose renewals had hung, was lost although its process ran", again.ID))
	if !e.stands(ctx, start, again, f) {
		e.stop()
	}
	e.mustHang(ctx, again)
}

// mustHang lets no renewal of the tenure be answered until its loss, and gives
// it up then.
func (e *Env) mustHang(ctx context.Context, t *workload.Tenure) (s *Strike, since time.Time) {
	s = e.MustInterfere(ctx, DropReply, "renew", t.Key, -1)
	since = time.Now()
	e.mustLose(ctx, t, since, t.Lease+e.Description.Bounds.LossFor(t.Lease), s.by(about(t, checker.LossSignal, "too-late",
		"no renewal of %s was ever answered", t.ID)))
	s.MustLift(ctx)
	_ = e.Release(ctx, t)
	return s, since
}

// mustHoldAgain has the client of a lost tenure take the key again.
func (e *Env) mustHoldAgain(ctx context.Context, p *workload.Process, t *workload.Tenure, s *Strike, since time.Time) *workload.Tenure {
	wait, cancel := context.WithTimeout(ctx, 3*t.Lease+e.Description.Bounds.Takeover+time.Second)
	defer cancel()
	again, err := workload.AcquireSoon(wait, p, e.ask("k", lockspec.RenewAuto), e.Lease/20)
	if err != nil {
		e.suspect(ctx, since, s.by(about(t, checker.Liveness, "no-second-tenure", "after the loss of %s its client got the key no more: %v", t.ID, err)))
		e.stop()
	}
	return e.keep(again)
}

// transientFailure loses a renewal on its way, later the reply to one.
func transientFailure(ctx context.Context, e *Env) {
	start := time.Now()
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", lockspec.RenewAuto))
	e.mustLeased(t)
	for _, what := range []Interference{DropRequest, DropReply} {
		s := e.MustInterfere(ctx, what, "renew", t.Key, 1)
		s.MustAwait(ctx, 2*t.Lease)
		s.MustLift(ctx)
		e.MustSleep(ctx, t.Lease+e.Description.Bounds.Takeover)
		f := s.by(about(t, checker.Renewal, "not-retried", "one renewal of %s was lost (%s) and the tenure with it; faults of %s are tolerated by its own word",
			t.ID, what, e.Description.Bounds.Tolerates))
		if !e.stands(ctx, start, t, f) {
			e.stop()
		}
	}
	e.Expect("release by the holder", e.Release(ctx, t), lockspec.OK)
}

// definiteRefusal gives the key to a stranger. One renewal may have been on its
// way, the next is refused, and no other must follow.
func definiteRefusal(ctx context.Context, e *Env) {
	e.mustBound("loss")
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", lockspec.RenewAuto))
	e.mustLeased(t)
	before := e.MustRequests(ctx, "renew", t.Key)
	taken := time.Now()
	s := e.MustSeed(ctx, t.Key, "stranger", time.Minute)
	e.mustLose(ctx, t, taken, e.lossSoon(t.Lease), s.by(about(t, checker.LossSignal, "too-late",
		"the service gave the key of %s to another, and said so to the next renewal", t.ID)))
	e.MustSleep(ctx, t.Lease)
	if n := e.MustRequests(ctx, "renew", t.Key) - before; n > 2 {
		e.accuse(s.by(about(t, checker.Renewal, "refused-and-retried", "%d renewals of %s were sent after another had its key; the first refusal was definite", n, t.ID)))
	}
	if held := e.MustInspect(ctx, t.Key); len(held) != 1 || held[0].Owner != "stranger" {
		e.accuse(s.by(about(t, checker.Ownership, "took-back", "after the loss of %s the service no longer names the stranger as holder: %v", t.ID, held)))
	}
	e.MustEvict(ctx, t.Key)
}

// vanishedStays evicts a key and lets its former holder renew it: by hand,
// then by itself.
func vanishedStays(ctx context.Context, e *Env) {
	if e.Description.Claims(lockspec.Revives) {
		e.MustUnsupported("the lock says that a renewal may revive a lease")
	}
	t := e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("k", lockspec.RenewManual))
	s := e.MustEvict(ctx, t.Key)
	e.Expect("renewal of what has vanished", t.Renew(ctx, 0), lockspec.Lost, lockspec.NotHeld)
	e.mustBeGone(ctx, t, s)
	if !e.Description.Claims(lockspec.AutoRenew) {
		return
	}
	t = e.MustAcquire(ctx, e.MustProcess(ctx, "n1"), e.ask("auto", lockspec.RenewAuto))
	s = e.MustEvict(ctx, t.Key)
	e.MustSleep(ctx, max(t.Lease, e.Lease)/2)
	e.mustBeGone(ctx, t, s)
}

func (e *Env) mustBeGone(ctx context.Context, t *workload.Tenure, s *Strike) {
	if held := e.MustInspect(ctx, t.Key); len(held) > 0 {
		e.accuse(s.by(about(t, checker.Renewal, "recreated", "the service had dropped %s; a renewal wrote it in again", t.ID)))
	}
	_ = e.Release(ctx, t)
}
