package checker

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockcheck/lockcheck/lockspec"
)

// byKey groups tenures by key, each group by the return of the acquisition.
func (r *record) byKey() [][]*Tenure {
	groups := map[string]int{}
	var out [][]*Tenure
	for _, t := range r.tenures {
		i, ok := groups[t.Key]
		if !ok {
			i = len(out)
			groups[t.Key] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], t)
	}
	return out
}

// judgeOverlaps looks at every pair of tenures of one key that may have been
// holders at once. Only tenures that are not yet over when the next is granted
// are kept, so that a history of n tenures that do not overlap costs O(n).
func (r *record) judgeOverlaps(v *Verdict, res *resource) {
	if r.header.Capacity > 1 {
		return
	}
	for _, group := range r.byKey() {
		var open []*Tenure
		for _, j := range group {
			open = slices.DeleteFunc(open, func(i *Tenure) bool { return r.over(i).before(j.Return) })
			for _, i := range open {
				if r.exclude(i, j) {
					former, latter := inOrder(i, j)
					r.judgePair(v, res, former, latter)
				}
			}
			open = append(open, j)
		}
	}
	r.judgeHarm(v, res)
}

// inOrder is two tenures, the one that was granted first before the other. i's
// acquisition returned first; where they crossed, tokens know better: the reply
// to the earlier grant may have been the later to arrive.
func inOrder(i, j *Tenure) (former, latter *Tenure) {
	if j.Token != 0 && j.Token < i.Token && j.Invoke.before(i.Return) {
		return j, i
	}
	return i, j
}

// exclude says whether two tenures of a key must not be at once: readers share,
// and where locks are reentrant an owner shares with itself. (It holds from its
// outermost acquisition to its last release; that is the union of its tenures,
// so that every other tenure must be apart from each of them.)
func (r *record) exclude(i, j *Tenure) bool {
	if i.Mode == lockspec.Read && j.Mode == lockspec.Read {
		return false
	}
	return i.Owner == "" || i.Owner != j.Owner || !r.header.Claimed(lockspec.Reentrant)
}

// over is the moment from which a tenure can overlap nobody any more.
func (r *record) over(t *Tenure) Moment {
	m := later(t.Believed.To, t.Believed.From)
	if len(t.Paper) > 0 {
		m = later(m, earlier(t.paperEarliest(), t.surelyEnded(r.faults)))
	}
	return m
}

// judgePair decides on one pair; i was granted first.
//
//   - Both entitled: the service promised the key to both. Always wrong.
//   - Only the papers overlap, and a fault on the service cut the first: the
//     service forgot a promise. A hazard if it was declared.
//   - Both believed: what an application sees. Tolerable only with a cause that
//     the target declared and that did no harm, see contained.
func (r *record) judgePair(v *Verdict, res *resource, i, j *Tenure) {
	if span, c := meetAll(i.Entitled, j.Entitled, r.eps(i.Lease)); c != apart {
		f := r.overlapOf(i, j, span, "entitled", Service,
			fmt.Sprintf("the service promised %q to %s and to %s at once, for %s", i.Key, i.ID, j.ID, span.Length()))
		if c == tooClose {
			f.Certainty = "shorter than ε"
		}
		f.exact = i.Session && !span.From.measured() && !span.To.measured()
		v.find(f)
		v.addOverlap(i, j, r.believed(i, j))
		return
	}
	believed := r.believed(i, j)
	v.addOverlap(i, j, believed)
	if r.judgePaper(v, res, i, j) {
		return
	}
	r.judgeBelief(v, res, i, j, believed)
}

// believed is the longest stretch in which both believed.
func (r *record) believed(i, j *Tenure) Span {
	s, _ := meetAll(i.beliefs(), j.beliefs(), r.eps(i.Lease))
	return s
}

func (v *Verdict) addOverlap(i, j *Tenure, s Span) {
	if !s.empty() {
		v.Measures.Overlaps = append(v.Measures.Overlaps, Both{i.ID, j.ID, s})
	}
}

func (r *record) overlapOf(i, j *Tenure, s Span, rule string, level Level, msg string) Finding {
	f := Finding{Kind: Overlap, Rule: rule, Level: level, Key: i.Key, Tenures: []string{i.ID, j.ID},
		Events: []int64{i.Return.Index, j.Return.Index}, Overlap: s.Length(), Message: msg}
	for _, h := range r.faults {
		if h.aimedAt(i) && !h.killed(i) && h.Start.before(j.Return) {
			f.Certainty = "a kill that would excuse it did not land"
		}
	}
	return f
}

// judgePaper judges papers of which a fault on the service cut the first; it
// says whether that explains the pair. Nothing follows from a paper that its
// holder had surely given up before j was granted. Where he only may have (a
// loss without a proven stamp, told later), a declared hazard stands as shown,
// an undeclared one is a doubt: a client that noticed the fault at once and
// gave the key back may have been overtaken rightly.
func (r *record) judgePaper(v *Verdict, res *resource, i, j *Tenure) bool {
	h := r.takenBy(i, j)
	if h == nil || i.surelyEnded(r.faults).before(j.Return) {
		return false
	}
	span, c := meetAll(i.Paper, j.Paper, r.eps(i.Lease))
	if c == apart {
		return false
	}
	span.To = earlier(span.To, r.end) // a session's promise has no end of its own
	f := r.overlapOf(i, j, span, "paper-cut-by-service", Service, fmt.Sprintf(
		"%s ended the promise of %q to %s; %s was granted it %s before that promise was due to end", h.describe(), i.Key, i.ID, j.ID, span.Length()))
	f.Faults = []string{h.ID}
	switch {
	case c == tooClose:
		f.Certainty = "shorter than ε"
	case !h.Landed:
		f.Certainty = "the fault did not land"
	case r.declared(h):
		r.judgeContained(v, res, i, j, r.believed(i, j), r.takers(i, j, h), h.Found)
		return true
	case i.ended(r.faults).before(j.Return):
		f.Certainty = "the loss may have been raised before the next grant"
	default:
		f.Message += "; the target did not declare the hazard " + string(h.Hazard)
	}
	v.find(f)
	return true
}

// takenBy is the fault on the service or the key that took the key from i
// before j was granted it. Of several that may have, one that landed comes
// before one that did not, then one that was declared; one after whose end the
// holder was still answered ok took nothing, unless no other is left.
func (r *record) takenBy(i, j *Tenure) *Fault {
	var best *Fault
	rank := -1
	for _, h := range r.faults {
		if h.Name == "break" || !h.takes(i, r.header.Class == lockspec.Session) || h.End.before(i.Return) || !h.Start.before(j.Return) {
			continue
		}
		n := 0
		if i.survived(h, j) {
			n -= 8
		}
		if h.Landed {
			n += 4
		}
		if r.declared(h) {
			n += 2
		}
		if best == nil || n > rank {
			best, rank = h, n
		}
	}
	return best
}

// takers is the fault, and after it every other declared one that may have
// taken the key from i before j was granted it: which of them did nobody saw.
func (r *record) takers(i, j *Tenure, first *Fault) []*Fault {
	all := []*Fault{first}
	for _, h := range r.faults {
		if h != first && h.Landed && r.declared(h) && h.takes(i, r.header.Class == lockspec.Session) && !h.End.before(i.Return) && h.Start.before(j.Return) {
			all = append(all, h)
		}
	}
	return all
}

// survived says whether the tenure was answered ok to something that was asked
// after the fault was over and answered before j was granted.
func (t *Tenure) survived(h *Fault, j *Tenure) bool {
	for i := range t.checks {
		if c := &t.checks[i]; c.outcome == lockspec.OK && h.End.before(c.invoke) && c.reply.before(j.Return) {
			return true
		}
	}
	return false
}

// judgeBelief judges a stretch in which both believed. Where loss is
// signalled, one that ends within the loss bound of the paper's end is the
// promised latency of the signal, not an overlap; it is measured all the same.
func (r *record) judgeBelief(v *Verdict, res *resource, i, j *Tenure, s Span) {
	c := s.certainty(r.eps(i.Lease))
	if c == apart {
		return
	}
	f := r.overlapOf(i, j, s, "believed-without-cause", Lease, fmt.Sprintf(
		"%s and %s both believed to hold %q for %s", i.ID, j.ID, i.Key, s.Length()))
	causes, missed := r.causes(i, s.From)
	if r.withinLossBound(i, s, causes) {
		return
	}
	declared := slices.DeleteFunc(slices.Clone(causes), func(h *Fault) bool { return !r.declared(h) && h.Name != "break" })
	stalled := slices.ContainsFunc(causes, func(h *Fault) bool { return h.Found })
	for _, h := range append(causes, missed...) {
		f.Faults = append(f.Faults, h.ID)
	}
	switch {
	case len(declared) > 0:
		r.judgeContained(v, res, i, j, s, declared, stalled)
		return
	case c == tooClose:
		f.Certainty = "shorter than ε"
	case len(causes) == 0 && len(missed) > 0, slices.ContainsFunc(missed, r.declared):
		f.Certainty = "a fault that would excuse it did not land"
	case len(causes) == 0:
		f.Message += "; nothing that struck " + i.Node + " explains it"
	default:
		f.Rule = "undeclared-hazard"
		f.Message += fmt.Sprintf("; the cause, %s, is a hazard that the target did not declare", causes[0].describe())
		f.Certainty = certaintyIf(!stalled)
	}
	v.find(f)
}

const stalledMachine = "the machine stalled"

func certaintyIf(sure bool) string {
	if sure {
		return Certain
	}
	return stalledMachine
}

// withinLossBound says whether the overlap is no longer than the promised
// latency of the loss signal. It looks at when the loss was due, not at a
// resume after that: an overlap that a pause made longer than the bound is the
// hazard pause.
func (r *record) withinLossBound(i *Tenure, s Span, causes []*Fault) bool {
	if !r.header.Claimed(lockspec.LossSignal) {
		return false
	}
	due := at(math.MinInt64)
	if len(causes) == 0 && !i.Session {
		due = i.PaperEnd
	}
	for _, h := range causes {
		due = later(due, r.dueRunning(i, h))
	}
	return due != never && !due.plus(r.header.Bounds.LossFor(i.Lease)).before(s.To)
}

// declared says whether the target declared the fault's hazard, within its
// class's ceiling.
func (r *record) declared(h *Fault) bool {
	return slices.Contains(r.header.Hazards, h.Hazard) && r.header.Class.Allows(h.Hazard)
}

// causes are the faults that may be why i was overtaken at t0: those that
// landed, and those that did not.
func (r *record) causes(i *Tenure, t0 Moment) (landed, missed []*Fault) {
	within := r.holdFor(i) + r.header.Bounds.LossFor(i.Lease)
	for _, h := range r.faults {
		if !h.mayCause(i, t0, within) {
			continue
		}
		if h.Landed {
			landed = append(landed, h)
		} else {
			missed = append(missed, h)
		}
	}
	return landed, missed
}

// judgeContained takes the first cause that proves containment. If none does,
// the pair is an overlap, primary unless the resource itself was broken.
func (r *record) judgeContained(v *Verdict, res *resource, i, j *Tenure, s Span, causes []*Fault, stalled bool) {
	var last Hazard
	for _, h := range causes {
		last = r.contained(res, i, j, s, h)
		if last.Contained() && r.tolerable(i, s, h) {
			if h.Name != "break" {
				v.Hazards = append(v.Hazards, last)
			}
			return
		}
	}
	f := r.overlapOf(i, j, s, "not-contained", Lease, fmt.Sprintf(
		"%s and %s both believed to hold %q for %s; the cause, %s, is a declared hazard that was not contained",
		i.ID, j.ID, i.Key, s.Length(), causes[len(causes)-1].describe()))
	f.Faults = []string{last.Fault}
	for _, e := range last.Evidence {
		if e.Holds == "false" {
			f.Message += fmt.Sprintf(": (%s) %s", e.Part, e.Text)
			f.Events = append(f.Events, e.Events...)
		}
	}
	if last.Contained() {
		f.Rule = "two-running-holders"
		f.Message += ": profile exclusive allows two believers only while the former's node is stopped, and the loss bound after that"
	}
	f.Certainty = certaintyIf(!stalled)
	v.find(f)
}

// tolerable is what profile exclusive adds: two may believe only while the
// former holder's node does not run, and for the loss bound after that. (Any
// check-then-write lock leaves that bound.)
func (r *record) tolerable(i *Tenure, s Span, h *Fault) bool {
	if r.header.Profile != lockspec.ExclusiveHolder || s.empty() {
		return true
	}
	return h.stops(i.Node) && !s.From.before(h.Start) &&
		!h.End.plus(r.header.Bounds.LossFor(i.Lease)+r.eps(i.Lease)).before(s.To)
}

// judgeHarm: an update lost in the open register although the two did not
// believe at once and nothing struck either of them is an overlap that only the
// resource saw.
//
// Counter-example to calling every such loss an overlap: nobody renews, the
// check passes at 480 ms of a lease of 500 ms, the work lasts until 530 ms, and
// another is granted the key at 510 ms. The lock is right; the write outlived
// the lease that was checked, which is what fencing exists for.
func (r *record) judgeHarm(v *Verdict, res *resource) {
	for _, u := range res.lost {
		t, over := res.tenure(u.Tenure), res.tenure(u.Over)
		if t == nil || v.believedBoth(u.Tenure, u.Over) || over != nil && t.Mode == lockspec.Read && over.Mode == lockspec.Read {
			continue // readers that write are no fault of the lock
		}
		f := Finding{Kind: Overlap, Rule: "lost-update", Level: Resource, Key: t.Key, Tenures: []string{u.Over, u.Tenure},
			Events:  []int64{u.Other, u.Event},
			Message: fmt.Sprintf("%s wrote on top of version %d although %s had written since: an update is lost", u.Tenure, u.Number, u.Over)}
		excused, perhaps := r.excused(t, u.at)
		if over != nil {
			e, p := r.excused(over, u.at)
			excused, perhaps = excused || e, perhaps || p
		}
		if perhaps {
			f.Certainty = "a fault that would excuse it did not land"
		}
		if !excused {
			v.find(f)
		}
	}
}

// excused says whether a write of the tenure that came as late as the moment is
// no fault of the lock, and whether a fault that did not land would have made
// it none. One that came after the tenure's loss had been told is the
// application's: whether the loss was right, and told in time, is judged by
// itself.
//
// Counter-example to asking for a hazard here: the reply to a renewal is slow,
// the loss is told in time, and the work that had passed its check before goes
// on to its write. Nobody believed in two holders.
func (r *record) excused(t *Tenure, write int64) (excused, perhaps bool) {
	landed, missed := r.causes(t, at(write))
	self := r.header.Claimed(lockspec.AutoRenew) && !t.manual
	return len(landed) > 0 || r.delayed(t) || t.toldBy(write) || !t.Session && !self && t.PaperEnd.Time <= write, len(missed) > 0
}

func (t *Tenure) toldBy(moment int64) bool {
	return slices.ContainsFunc(t.losses, func(l loss) bool { return l.latest.Time <= moment })
}

func (v *Verdict) believedBoth(a, b string) bool {
	return slices.ContainsFunc(v.Measures.Overlaps, func(o Both) bool {
		return o.Former == a && o.Latter == b || o.Former == b && o.Latter == a
	})
}

// delayed says whether the harness itself held a write of the tenure back.
func (r *record) delayed(t *Tenure) bool {
	return slices.ContainsFunc(r.faults, func(h *Fault) bool { return h.Name == "delayed-write" && h.strikes(t) })
}

// due is the moment by which a former holder must know, before the loss bound;
// not before its node runs again.
func (r *record) due(i *Tenure, h *Fault) Moment {
	return r.resumed(i, r.lagging(i, r.dueRunning(i, h)))
}

// lagging is the moment as a node may see it whose clock stood still or ran
// wrong since it asked for the key: what its clock lost, it is late by.
//
// Counter-example to holding it to the true time: a machine is suspended for a
// minute while the reply to its acquisition is on the way. The hazard suspend
// is that its monotonic clock then knows nothing of the minute.
func (r *record) lagging(i *Tenure, m Moment) Moment {
	for _, h := range r.faults {
		if !h.Landed || !h.slows(i.Node) || !h.Start.before(m) || h.End.Time < i.grantSent() {
			continue
		}
		if h.End == never || m == never {
			return never
		}
		m = m.plus(Span{later(h.Start, at(i.grantSent())), h.End}.Length())
	}
	return m
}

// dueRunning is due for a node that is not stopped: the end of the paper; where
// the service was struck, the next renewal; for a session the fault itself.
func (r *record) dueRunning(i *Tenure, h *Fault) Moment {
	self := r.header.Claimed(lockspec.AutoRenew) && !i.manual
	switch {
	case i.Session:
		return h.Start
	case h.onService() && self && r.header.Bounds.RenewEveryFor(i.Lease) > 0:
		next := later(h.Start, i.Return).plus(r.header.Bounds.RenewEveryFor(i.Lease))
		if r.deaf(i, h, next) {
			return later(next, i.PaperEnd)
		}
		return next
	case self && !i.seesRenew:
		return later(i.PaperEnd, h.Start.plus(i.Lease))
	}
	return i.PaperEnd
}

// deaf says whether something else struck the tenure between the fault and the
// moment, so that the renewal that would have told of it may not have come
// through: the holder then knows when its paper ends.
func (r *record) deaf(i *Tenure, h *Fault, m Moment) bool {
	return slices.ContainsFunc(r.faults, func(f *Fault) bool {
		return f != h && f.strikes(i) && !m.before(f.Start) && !f.End.before(h.Start)
	})
}

// resumed is the moment, or, where the node was stopped then, its resume.
func (r *record) resumed(i *Tenure, m Moment) Moment {
	for _, s := range r.faults {
		if s.Landed && s.stops(i.Node) && !m.before(s.Start) && m.before(s.End) {
			m = s.End
		}
	}
	return m
}

// measureLosses tells how long after the end of its paper, or the resume of its
// node, a tenure learnt that it was over; early losses are not latencies.
func (r *record) measureLosses(v *Verdict) {
	for _, t := range r.tenures {
		if l := t.firstLoss(); l != never && !t.Session {
			if due := r.resumed(t, t.PaperEnd); due.before(l) {
				v.Measures.Losses = append(v.Measures.Losses, Span{due, l}.Length())
			}
		}
	}
}

// lossLimit is the latest moment at which i may still have been ignorant.
func (r *record) lossLimit(i *Tenure, h *Fault) Moment {
	return r.due(i, h).plus(r.header.Bounds.LossFor(i.Lease))
}
