package checker

import (
	"fmt"
	"slices"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// judgeLosses judges the loss signal of every tenure: it must come in time once
// the tenure is over, and must not come while it stands.
func (r *record) judgeLosses(v *Verdict) {
	for _, t := range r.tenures {
		if t.late || t.shared {
			continue
		}
		if r.header.Claimed(lockspec.LossSignal) {
			r.judgeLate(v, t)
		}
		if r.header.Claimed(lockspec.HoldCheck) {
			r.judgeHeld(v, t)
		}
		r.judgeEarly(v, t)
	}
}

// judgeLate: the loss of a tenure is due when its paper ends, or, where it was
// struck, by the latest moment that any of those faults allows; it is too late
// when even its earliest moment is more than the loss bound and ε after that,
// whether or not anybody was granted the key.
//
// A tenure that renews itself and does not show it has no end that is known
// while nothing strikes it: nothing is said of it. And a signal that never
// came is missed only where the process demonstrably went on: the client may
// have been closed, which no event tells.
func (r *record) judgeLate(v *Verdict, t *Tenure) {
	struck := r.struck(t)
	due := r.lossDue(t, struck)
	if due == never {
		return
	}
	limit := due.plus(r.header.Bounds.LossFor(t.Lease)).plus(r.eps(t.Lease))
	gone := earlier(t.gaveUp(r.faults), t.shutdown)
	lost := t.firstLoss()
	if !limit.before(gone) || !limit.before(lost) {
		return
	}
	f := Finding{Kind: LossSignal, Rule: "too-late", Level: Lease, Key: t.Key, Tenures: []string{t.ID}, Events: t.lossEvents(),
		Message: fmt.Sprintf("loss of %s was due by %s and raised at %s: its process worked on for %s without the lock",
			t.ID, Clock(limit.Time), Clock(lost.Time), Span{due, lost}.Length())}
	if lost == never {
		alive := t.aliveAfter(limit)
		if alive == nil || r.selfRenewing(t) && len(struck) > 0 {
			return
		}
		f.Rule, f.Events = "never", []int64{alive.invoke.Index, alive.reply.Index}
		f.Message = fmt.Sprintf("loss of %s was due by %s and never signalled; its %s at %s was still answered %s", t.ID, Clock(limit.Time), alive.op, Clock(alive.invoke.Time), alive.outcome)
	}
	f.Certainty = certaintyIf(!slices.ContainsFunc(struck, func(h *Fault) bool { return h.Found }))
	v.find(f)
}

// lossDue is when the process must know, without the loss bound; never where
// no moment is certain.
func (r *record) lossDue(t *Tenure, struck []*Fault) Moment {
	if t.Session {
		return r.sessionLossDue(t, struck)
	}
	if len(struck) == 0 {
		if r.selfRenewing(t) && !t.seesRenew {
			return never
		}
		return t.PaperEnd
	}
	due := Moment{}
	for _, h := range struck {
		due = later(due, r.due(t, h))
		due = later(due, r.resumed(t, t.PaperEnd))
		if h.End == never {
			return never
		}
		due = later(due, h.End) // until it healed, the signal itself may have been held up
	}
	return due
}

// sessionLossDue: only what surely ended the session makes its loss due. A
// pause or a partition may have been shorter than anybody noticed, and a
// restart before the reply to the acquisition may have come before the grant.
func (r *record) sessionLossDue(t *Tenure, struck []*Fault) Moment {
	due := never
	for _, h := range struck {
		if h.Landed && h.End != never && t.Return.before(h.Start) && (h.Name == "terminate" || h.Name == "restart" || h.Name == "failover") {
			due = r.resumed(t, h.End)
		}
	}
	return due
}

// judgeHeld: where a hold-check is claimed, nothing that asks it may be told
// "held" once the loss was due and the loss bound has passed.
//
// Counter-example to leaving this to the loss signal: a lock without one, whose
// check looks at a flag in the client that nobody clears.
func (r *record) judgeHeld(v *Verdict, t *Tenure) {
	struck := r.struck(t)
	due := r.lossDue(t, struck)
	if due == never {
		return
	}
	limit := due.plus(r.header.Bounds.LossFor(t.Lease)).plus(r.eps(t.Lease))
	for i := range t.checks {
		c := &t.checks[i]
		if c.outcome != lockspec.OK || c.op != history.Held && c.op != history.Write || !limit.before(c.invoke) {
			continue
		}
		v.find(Finding{Kind: LossSignal, Rule: "held-after-end", Level: Lease, Key: t.Key, Tenures: []string{t.ID},
			Events:    []int64{c.invoke.Index, c.reply.Index},
			Certainty: certaintyIf(!slices.ContainsFunc(struck, func(h *Fault) bool { return h.Found })),
			Message: fmt.Sprintf("a %s of %s that was asked for at %s was answered ok; its tenure was over by %s",
				c.op, t.ID, Clock(c.invoke.Time), Clock(limit.Time))})
		return
	}
}

// selfRenewing says whether the lock renews the tenure by itself.
func (r *record) selfRenewing(t *Tenure) bool {
	return r.header.Claimed(lockspec.AutoRenew) && !t.manual
}

// struck is every fault, landed or not, with or without a hazard word, that
// strikes the tenure from one lease before its acquisition until its loss.
func (r *record) struck(t *Tenure) []*Fault {
	var out []*Fault
	from, to := t.Invoke.Time-int64(t.Lease), t.lastWord(r.faults)
	for _, h := range r.faults {
		if h.strikes(t) && !to.before(h.Start) && h.End.Time >= from {
			out = append(out, h)
		}
	}
	return out
}

// lastWord is the latest moment at which something may still have struck the
// tenure: it was given up, or its loss had been told.
func (t *Tenure) lastWord(faults []*Fault) Moment {
	m := t.gaveUp(faults)
	if len(t.releases) > 0 {
		m = later(m, t.releases[0].reply)
	}
	for _, l := range t.losses {
		m = earlier(m, l.latest)
	}
	return m
}

// aliveAfter is an operation of the tenure that was asked for after the moment
// and answered ok.
func (t *Tenure) aliveAfter(m Moment) *call {
	for i := range t.checks {
		if c := &t.checks[i]; m.before(c.invoke) && c.outcome == lockspec.OK {
			return c
		}
	}
	return nil
}

// judgeEarly: a tenure that stands must not be called lost, nor answer that it
// is not held. The promise is taken at its earliest end, the loss at its
// latest moment, and the declared margin and ε are the lock's. Faults that the
// lock tolerates by its own word excuse nothing.
//
// A lock that renews itself and loses a tenure after its first paper, with
// nothing wrong, has failed to renew.
//
// Counter-example to blaming every refused renewal: the first call of a release
// was answered busy-ness aside, the second is refused because the first landed.
// Nothing after the first release counts.
func (r *record) judgeEarly(v *Verdict, t *Tenure) {
	sign, ok := t.firstSign()
	if !ok || !sign.moment.before(earlier(t.shutdown, t.killedAt(r.faults))) {
		return
	}
	struck := r.struck(t)
	if len(struck) > 0 && !r.tolerated(struck) {
		return
	}
	f := Finding{Level: Lease, Key: t.Key, Tenures: []string{t.ID}, Events: sign.events}
	limit := t.paperEarliest().Time - int64(r.header.Bounds.LossMarginFor(t.Lease)+r.eps(t.Lease))
	switch {
	case t.Session || sign.moment.Time < limit:
		f.Kind, f.Rule = LossSignal, "false"
		f.Message = fmt.Sprintf("%s %s at %s although it was promised until %s and nothing had struck it", t.ID, sign.text, Clock(sign.moment.Time), Clock(t.paperEarliest().Time))
		if t.Session {
			f.Message = fmt.Sprintf("%s %s at %s although nothing had struck its session", t.ID, sign.text, Clock(sign.moment.Time))
		}
	case r.selfRenewing(t):
		f.Kind, f.Rule = Renewal, "lost"
		f.Message = fmt.Sprintf("%s %s at %s although it renews by itself and nothing had struck it", t.ID, sign.text, Clock(sign.moment.Time))
	default:
		return
	}
	v.find(f)
}

// sign is the first thing that says a tenure is over.
type sign struct {
	moment Moment // the latest it may have been
	events []int64
	text   string
}

// firstSign is the first loss, or refusal, before any release was called; a
// first release that was refused counts.
func (t *Tenure) firstSign() (sign, bool) {
	first := sign{moment: never}
	released := never
	if len(t.releases) > 0 {
		c := &t.releases[0]
		released = c.invoke
		if c.refused() && c.op != "" && c.reply != never {
			// It was refused when it arrived, as late as its reply.
			first = sign{c.reply, []int64{c.invoke.Index, c.reply.Index}, "answered its first release " + string(c.outcome)}
			released = c.reply
		}
	}
	for _, l := range t.losses {
		if l.latest.before(earlier(first.moment, released)) {
			first = sign{moment: l.latest, text: "was called lost"}
			if l.latest.stamped() {
				first.events = []int64{l.latest.Index}
			}
		}
	}
	for i := range t.checks {
		if c := &t.checks[i]; c.refused() && !first.moment.before(c.reply) && c.reply.before(earlier(never, released)) {
			first = sign{c.reply, []int64{c.invoke.Index, c.reply.Index}, fmt.Sprintf("answered a %s %s", c.op, c.outcome)}
		}
	}
	return first, first.moment != never
}

func (t *Tenure) killedAt(faults []*Fault) Moment {
	m := never
	for _, f := range faults {
		if f.killed(t) {
			m = earlier(m, f.Start)
		}
	}
	return m
}

// tolerated says whether the lock promised to lose nothing by faults that are
// as short, together, as these. A clock that runs wrong is no outage: it is off
// by more than the time it did.
func (r *record) tolerated(struck []*Fault) bool {
	sum := int64(0)
	for _, h := range struck {
		if h.End == never || h.Found || h.Hazard == lockspec.ClientClock || h.Name == "kill" || h.Name == "break" || h.onService() {
			return false
		}
		sum += h.End.Time - h.Start.Time
	}
	return sum < int64(r.header.Bounds.Tolerates)
}
