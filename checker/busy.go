package checker

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// judgeBusy: an acquisition that was answered busy must have met somebody. It
// is explained by
//
//   - a possible hold of another tenure that meets it: from the invocation of
//     that acquisition, but not before the one before it was surely over, to
//     the latest moment at which it may have ended, but not after the next was
//     granted; on k permits, by possible holds of more than k − count at once;
//   - an acquisition of unknown outcome, from its invocation on;
//   - an acquisition that a fault struck, while it was open: a first attempt of
//     it may have been granted, have lost its reply, and have been given back
//     before it was refused or granted again;
//   - unless strict-try is claimed, any other attempt, up to its return and a
//     lease: a quorum lock leaves keys behind where it was refused;
//   - a writer that waits, for a reader;
//   - a fault on the service or the key, after which nobody knows what it holds.
//
// Counter-example to asking for a certain hold: the reply of the only grant is
// slow, and another is answered busy before it arrives.
func (r *record) judgeBusy(v *Verdict) {
	byKey := map[string][]*Tenure{}
	for _, group := range r.byKey() {
		byKey[group[0].Key] = group
	}
	others := map[string][]*attempt{}
	for i := range r.attempts {
		a := &r.attempts[i]
		others[a.key] = append(others[a.key], a)
	}
	for i := range r.attempts {
		a := &r.attempts[i]
		if a.unknown || a.outcome != lockspec.Busy || r.attemptExplains(a, others[a.key]) || r.holdsExplain(a, byKey[a.key]) || r.ghostExplains(a, byKey[a.key]) || r.serviceStruck(a) {
			continue
		}
		v.find(Finding{Kind: Contract, Rule: "unexplained-busy", Level: Service, Key: a.key, Events: []int64{a.invoke.Index, a.index},
			Message: fmt.Sprintf("an acquisition of %q from %s to %s was answered busy although nobody can have held it", a.key, Clock(a.invoke.Time), Clock(a.reply.Time))})
	}
}

func (r *record) attemptExplains(a *attempt, others []*attempt) bool {
	strict := r.header.Claimed(lockspec.StrictTry)
	for _, b := range others {
		if b == a || a.reply.before(b.invoke) {
			continue
		}
		until, struck := r.ghost(b.node, b.invoke, b.reply, b.ask)
		waitingWriter := a.mode == lockspec.Read && b.mode != lockspec.Read
		if b.unknown || struck && a.invoke.before(until) || !strict && !b.reply.plus(b.ask+r.eps(b.ask)).before(a.invoke) || waitingWriter && !b.reply.before(a.invoke) {
			return true
		}
	}
	return false
}

// ghost is until when an acquisition of the node that a fault struck while it
// was open may have kept the key, whatever became of it: what the fault held up
// may have landed as late as it healed, for one lease. ok is false where
// nothing struck it.
func (r *record) ghost(node string, from, to Moment, lease time.Duration) (until Moment, ok bool) {
	for _, f := range r.faults {
		if f.Landed && (f.strikesNode(node) || f.stalls()) && !to.before(f.Start) && !f.End.before(from) {
			until, ok = later(until, later(to, f.End)), true
		}
	}
	return until.plus(lease + r.header.Bounds.Takeover + r.eps(lease)), ok
}

// ghostExplains looks for an acquisition that was struck and granted in the end.
func (r *record) ghostExplains(a *attempt, group []*Tenure) bool {
	return slices.ContainsFunc(group, func(t *Tenure) bool {
		until, ok := r.ghost(t.Node, t.Invoke, t.Return, t.Lease)
		return ok && t.Invoke.before(a.reply) && a.invoke.before(until)
	})
}

// holdsExplain counts what may have been taken at one point of the attempt.
// Possible holds only grow with their interval, so that it is enough to look at
// the start of each.
func (r *record) holdsExplain(a *attempt, group []*Tenure) bool {
	window := Span{a.invoke, a.reply}
	var met []Span
	var weight []int
	for n, t := range group {
		if a.mode == lockspec.Read && t.Mode == lockspec.Read {
			continue
		}
		s := r.possible(group, n)
		if s.To.before(window.From) || window.To.before(s.From) {
			continue
		}
		met, weight = append(met, s), append(weight, t.Count)
	}
	free := max(1, r.header.Capacity) - a.count
	for _, at := range met {
		sum := 0
		for k, s := range met {
			if !at.From.before(s.From) && !s.To.before(later(at.From, window.From)) {
				sum += weight[k]
			}
		}
		if sum > free {
			return true
		}
	}
	return false
}

// possible is the longest that a tenure may have held. Where a key has one
// holder at a time, its neighbours clip it.
func (r *record) possible(group []*Tenure, n int) Span {
	t := group[n]
	s := Span{t.Invoke, r.latestEnd(t)}
	if r.header.Capacity > 1 || r.header.Claimed(lockspec.Shared) || r.header.Claimed(lockspec.Reentrant) {
		return s
	}
	if n+1 < len(group) && t.precedes(group[n+1]) {
		s.To = earlier(s.To, group[n+1].Return)
	}
	if n > 0 && group[n-1].precedes(t) && len(group[n-1].Entitled) > 0 {
		s.From = later(s.From, group[n-1].Entitled[len(group[n-1].Entitled)-1].To)
	}
	return s
}

// latestEnd is the latest moment up to which the service may have kept the key
// for the tenure: the ok to a release; else the latest that its lease can have
// landed, the lease and the takeover bound after that. A release that was
// refused says that its caller holds no longer, not what the service knows.
//
// Counter-example to taking a refusal for the end: a session that was cut off
// gives up by itself, its pings arrive when the link heals, and the server keeps
// the key until it has heard nothing for as long again.
func (r *record) latestEnd(t *Tenure) Moment {
	for i := range t.releases {
		if c := &t.releases[i]; c.op == history.Release && c.outcome == lockspec.OK {
			return c.reply
		}
	}
	if r.header.Bounds.Takeover == 0 {
		return never
	}
	landed, lease := r.latestLanding(t)
	return landed.plus(lease + r.header.Bounds.Takeover + r.eps(lease))
}

func (r *record) serviceStruck(a *attempt) bool {
	for _, f := range r.faults {
		if f.stalls() {
			continue // it forgets nothing by it
		}
		for _, target := range f.Targets {
			if (target == "service" || target == "clock:service" || target == "key:"+a.key) && !a.reply.before(f.Start) {
				return true
			}
		}
	}
	return false
}
