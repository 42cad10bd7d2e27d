package checker

import (
	"fmt"
	"github.com/lockcheck/lockcheck/checker/history"
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

// judgePair decides on one pair; i was granted first, as far as anybody saw.
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
	own := r.judgeOrder(res, i, j, believed)
	if own.accuses() > 0 && r.mayFollow(i, j) {
		if other := r.judgeOrder(res, j, i, believed); other.accuses() < own.accuses() {
			i, j, own = j, i, other
		}
	}
	v.addOverlap(i, j, believed)
	v.Findings = append(v.Findings, own.Findings...)
	v.Doubts = append(v.Doubts, own.Doubts...)
	v.Hazards = append(v.Hazards, own.Hazards...)
}

// judgeOrder judges what is not a promise to both, taking i as the former.
func (r *record) judgeOrder(res *resource, i, j *Tenure, believed Span) *Verdict {
	v := &Verdict{}
	if !r.judgePaper(v, res, i, j) {
		r.judgeBelief(v, res, i, j, believed)
	}
	return v
}

// accuses is how far it goes against the lock: 2 with a finding, 1 with a doubt.
func (v *Verdict) accuses() int {
	switch {
	case len(v.Findings) > 0:
		return 2
	case len(v.Doubts) > 0:
		return 1
	}
	return 0
}

// mayFollow says whether i may be the later of the two, although its acquisition
// returned first: they crossed, no token tells their order, j was answered
// nothing that only a holder is, and a declared fault that had begun by i's
// return may be why j's reply was late and its grant over by then: one that took
// the key, or one of j's node, link or clock while its first lease ran out.
//
// Counter-example to going by the returns: a machine that waits for a key is
// suspended as it is granted it, another is granted it when that lease has run
// out and renews, and the first machine wakes and hears of its grant. It was
// overtaken; the other lost nothing, and will never be told that it did.
//
// Counter-example to trying both orders of all that crossed: whoever waits
// crosses the holder he waits for. A server's clock jumps, he is granted the
// key, and the holder is never told.
func (r *record) mayFollow(i, j *Tenure) bool {
	sent := at(j.grantSent())
	if i.precedes(j) || !sent.before(i.Return) || r.stoodAfter(j, i.Return) {
		return false
	}
	over := !j.Session && !j.shared && !i.Return.before(sent.plus(j.Lease-r.eps(j.Lease)))
	landed, _ := r.causes(j, j.Return)
	return slices.ContainsFunc(landed, func(h *Fault) bool {
		return (r.declared(h) || h.Name == "break") && h.Start.before(i.Return) && (over && h.strikesNode(j.Node) || h.takes(j, j.Session))
	})
}

// stoodAfter says whether the service knew the tenure as the holder's after the
// moment: it answered ok to a renewal that was sent since, or to the first
// release, where that is checked.
func (r *record) stoodAfter(t *Tenure, m Moment) bool {
	if r.header.Claims[lockspec.OwnerChecked] == history.Proven && !r.header.Claimed(lockspec.IdempotentRelease) && len(t.releases) > 0 {
		if c := &t.releases[0]; c.outcome == lockspec.OK && m.before(c.invoke) {
			return true
		}
	}
	return !r.header.Claimed(lockspec.Revives) && slices.ContainsFunc(t.renewals, func(n renewal) bool {
		sent := n.invoke
		if n.own {
			sent = at(n.sent) // when its event arrived says little; 0: nobody knows
		}
		return n.ok && m.before(sent)
	})
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
// holder was still answered ok took nothing, unless no other is left. One that
// was over before the grant was answered may have taken it on its way: where
// only that one was declared, the papers say nothing, and beliefs are judged.
func (r *record) takenBy(i, j *Tenure) *Fault {
	var best *Fault
	rank, early := -1, false
	for _, h := range r.faults {
		if h.Name == "break" || !h.takes(i, r.header.Class == lockspec.Session) || !h.Start.before(j.Return) {
			continue
		}
		if h.End.before(i.Return) {
			early = early || h.Landed && r.declared(h)
			continue
		}
		n := 0
		if r.survived(i, h, j) {
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
	if best != nil && early && !r.declared(best) {
		return nil
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

// survived says whether the tenure was answered ok, before j was granted the key,
// to something that was asked after the fault was over: of a renewal the service
// answers, of a check perhaps only the client, who need not know of a loss
// before the loss bound has passed.
//
// Counter-example to believing a check at once: a restart ends a session, its
// client is asked 5 ms later and still says held, and a fault that begins as the
// next grant arrives is blamed for it.
func (r *record) survived(t *Tenure, h *Fault, j *Tenure) bool {
	known := h.End.plus(r.header.Bounds.LossFor(t.Lease)).plus(r.eps(t.Lease))
	for i := range t.checks {
		c := &t.checks[i]
		after := known
		if c.op == history.Renew {
			after = h.End
		}
		if c.outcome == lockspec.OK && after.before(c.invoke) && c.reply.before(j.Return) {
			return true
		}
	}
	return false
}
