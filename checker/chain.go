package checker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// chain places the grants of one key's leases in their order, each as early as
// it can have been, and so finds what no pair shows: three tenures each two of
// which fit, and all three do not.
//
//	g(i) = max(a1(i), end(i−1)); illegal iff g(i) > a2(i); end(i) = min(r1(i), g(i) + lease(i))
//
// Proof. The order is given, by tokens or by returns. A grant is a point of
// [a1, a2]; the next may not come before the tenure is over, which is at its
// release (not before r1, when that was called) or when its lease has run out,
// and both bounds only rise with the grant. So, by induction, placing each
// grant at the earliest point that the one before it allows gives every later
// one the most room: if that placing breaks a deadline a2, every placing does;
// if it breaks none, it is a linearization.
//
// Where servers that know nothing of each other vote, a grant is no point: see
// scattered.
//
// Every lease is taken ε shorter than granted, so that the clocks' error, which
// adds up along a chain, is on the lock's side at every link.
type chain struct {
	end     Moment
	members []string // since the last grant that nobody delayed
	slow    bool     // one of them was answered no sooner than its lease had ended
}

// stay is what the placing needs of a tenure.
type stay struct {
	id         string
	asked, got Moment // a1, a2
	slow       bool   // a2 − a1 is no less than the lease
}

// place adds the next tenure and says where its grant is put; false if nothing
// explains it. The caller then sets the end that follows from the grant.
func (c *chain) place(s stay) (g Moment, ok bool) {
	g = later(s.asked, c.end)
	if !s.asked.before(c.end) {
		c.members, c.slow = c.members[:0], false
	}
	c.members, c.slow = append(c.members, s.id), c.slow || s.slow
	return g, !s.got.before(g)
}

// judgeChains checks, key by key, that the leases can have been granted in the
// order of their tokens, or, where there are none, of their returns. Pairs that
// were both entitled are found by judgeOverlaps; here only chains are.
//
// Without tokens the order of the returns is right only where a round trip is
// shorter than its lease: a tenure that was slower makes a failure a doubt.
//
// Counter-example to sorting by return under leases: a lease of 10 is granted
// at 1 and its reply comes at 20; another is granted at 12 and answered at 13.
// The lock is right, and sorted by return the second comes first and the first
// cannot be placed after it.
func (r *record) judgeChains(v *Verdict) {
	crowds := r.header.Capacity > 1 || r.header.Claimed(lockspec.Reentrant)
	for _, group := range r.byKey() {
		if len(group) < 2 || v.overlapped(group) {
			continue
		}
		if crowds || slices.ContainsFunc(group, func(t *Tenure) bool { return t.Mode == lockspec.Read }) {
			r.judgeRoom(v, group)
			continue
		}
		tokens := !slices.ContainsFunc(group, func(t *Tenure) bool { return t.Token == 0 })
		returned, members, at := r.placeAll(group)
		if !tokens {
			if !returned {
				v.find(r.chainFinding(group, members, at, Overlap))
			}
			continue
		}
		byToken := slices.Clone(group)
		slices.SortStableFunc(byToken, func(a, b *Tenure) int { return int(min(1, max(-1, a.Token-b.Token))) })
		ok, members, at := r.placeAll(byToken)
		switch {
		case ok:
		case returned:
			v.find(r.chainFinding(byToken, members, at, Fencing))
		default:
			v.find(r.chainFinding(byToken, members, at, Overlap))
		}
	}
}

// placeAll places the tenures in the order given; where that fails it says
// which of them do not fit together.
func (r *record) placeAll(group []*Tenure) (ok bool, members []string, at *Tenure) {
	var c chain
	c.end = longAgo
	for _, t := range group {
		if t.taken() || t.Session && t.Paper == nil {
			continue // taken before its reply, or promised nothing: it binds nobody
		}
		g, ok := c.place(t.stay())
		if !ok {
			return false, c.members, t
		}
		c.end = r.earliestEnd(t, g)
	}
	return true, nil, nil
}

// taken says whether the tenure may have been over before its reply came.
func (t *Tenure) taken() bool { return !t.Return.before(t.Cut.At) }

func (t *Tenure) stay() stay {
	return stay{t.ID, t.Invoke, t.Return, !t.Session && t.Return.Time-t.Invoke.Time >= int64(t.Lease)}
}

// earliestEnd is the earliest end of a tenure that was granted at the moment:
// a release or whatever cut it, else the end of the last lease that surely
// landed. An unknown renewal may have shortened it, and never lengthens.
func (r *record) earliestEnd(t *Tenure, g Moment) Moment {
	if t.shared {
		return earlier(t.Cut.At, g)
	}
	if t.Session {
		return t.Cut.At
	}
	if scattered(r.header, t.Token) {
		g = t.Invoke
	}
	g = later(g, at(t.sent)) // a proven send is no later than the grant
	end, _ := alive(g, t.Return, t.Lease, t.renewals, r.eps)
	return earlier(end, t.Cut.At)
}

// scattered says whether a lease may have been granted bit by bit, each server
// giving its vote for it at a moment of its own. Then the lease may be over as
// soon as it would be if the first vote had been given at the send, however late
// the last one came.
//
// Counter-example to counting it from a point: two of five servers vote for a
// holder at 1, for 100. It stands still, others come and go, and at 50 two more
// servers give it their votes, which makes a grant. The first two forget it at
// 101, and vote for the next one, rightly.
func scattered(h *history.Header, token int64) bool {
	return token == 0 && h.Class == lockspec.ReplicatedLease
}

// overlapped says whether two of the tenures were found at fault as a pair.
func (v *Verdict) overlapped(group []*Tenure) bool {
	for _, list := range [][]Finding{v.Findings, v.Doubts} {
		for i := range list {
			if f := &list[i]; f.Key == group[0].Key && (f.Kind == Overlap || f.Rule == "token-order" || f.Rule == "token-repeated") {
				return true
			}
		}
	}
	return false
}

func (r *record) chainFinding(group []*Tenure, members []string, last *Tenure, kind Kind) Finding {
	f := Finding{Kind: kind, Rule: "chain", Level: Service, Key: last.Key, Tenures: members,
		Message: fmt.Sprintf("%s cannot all have held %q one after the other: even if each was granted as early as it can have been, %s was answered before the one before it was over",
			strings.Join(members, ", "), last.Key, last.ID)}
	if kind == Fencing {
		f.Message = fmt.Sprintf("the leases of %q fit one after the other, but not in the order of their tokens: %s", last.Key, strings.Join(members, ", "))
	}
	for _, t := range group {
		if slices.Contains(members, t.ID) {
			f.Events = append(f.Events, t.Return.Index)
			if last.Token == 0 && t.stay().slow {
				f.Certainty = "an acquisition took longer than its lease, and there are no tokens to tell the order"
			}
		}
	}
	return f
}
