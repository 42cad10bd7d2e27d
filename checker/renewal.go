package checker

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// judgeRenewals: every renewal that was answered ok must have found the lease
// alive. A lease that had run out and was renewed all the same was revived,
// which is tolerated only where it is declared and nobody was granted the key
// in between. See alive for the proof.
func (r *record) judgeRenewals(v *Verdict) {
	for _, t := range r.tenures {
		if t.Session || t.shared || t.late || r.selfRenewing(t) && !t.seesRenew {
			continue
		}
		_, n := alive(at(t.grantSent()), t.Return, t.Lease, t.renewals, r.eps)
		if n < 0 {
			continue
		}
		late := t.renewals[n]
		if r.header.Claimed(lockspec.Revives) && !r.grantedBetween(t, late) {
			continue
		}
		f := Finding{Kind: Renewal, Rule: "revived", Level: Service, Key: t.Key, Tenures: []string{t.ID},
			Events:  []int64{late.invoke.Index, late.reply.Index},
			Message: fmt.Sprintf("a renewal of %s that was asked for at %s was answered ok although its lease had ended: it renewed what was no longer held", t.ID, Clock(late.invoke.Time))}
		if slices.ContainsFunc(r.struck(t), (*Fault).onServiceSide) {
			f.Certainty = "a fault struck the service"
		}
		v.find(f)
	}
}

// window is where a point lies at which the lease was surely alive, and the
// lease that it left.
type window struct {
	lo, hi int64
	lease  time.Duration
}

// alive replays the renewals of a tenure that was granted at g at the earliest:
// the earliest end of its last lease, and the first renewal that cannot have
// found it alive (−1: none), after which it does not look.
//
// Proof. Let the grant and the ok renewals be points w0 ≤ w1 ≤ … ≤ wm, each
// within the interval [lo, hi] of its operation, and w(k+1) ≤ w(k) + lease(k).
// These are difference constraints along a line; they have a solution iff, after
// lo(k) is raised to lo(k+1) − lease(k) from the last to the first, lo(k) ≤ hi(k)
// for all k. (Raising forwards changes nothing: a renewal is asked for after the
// one before it was answered.) The last point can be at its lo, so the earliest
// end is lo(m) + lease(m).
//
// A renewal of unknown outcome may have landed once, at any time after it was
// asked for: it allows ONE step its own lease more, and as the last one it may
// have shortened the lease; it never lengthens. A tenure for which that choice
// matters is let pass. Every step back is ε longer, every end ε earlier, than granted.
func alive(g, got Moment, lease time.Duration, renewals []renewal, eps func(time.Duration) time.Duration) (end Moment, revived int) {
	w := append(make([]window, 0, 8), window{g.Time, got.Time, lease})
	var unknown []*renewal
	for n := range renewals {
		r := &renewals[n]
		if !r.ok {
			unknown = append(unknown, r)
			continue
		}
		lo := r.sent
		switch {
		case r.own && r.sent == 0:
			lo = w[len(w)-1].lo // some time before its event arrived
		case r.sent == 0:
			lo = r.invoke.Time
		}
		w = append(w, window{max(lo, g.Time), r.reply.Time, r.lease})
		if !fits(w, unknown, eps) {
			return earliestOf(w[len(w)-2], renewals[:n], eps), n
		}
	}
	return earliestOf(w[len(w)-1], renewals, eps), -1
}

// mostTried bounds the unknown renewals for which every place is tried; a tenure
// with more of them is let pass.
const mostTried = 3

// fits says whether the points can be put, each unknown renewal at one place
// after it was asked for, or at none.
func fits(w []window, unknown []*renewal, eps func(time.Duration) time.Duration) bool {
	if raise(w, eps) || len(unknown) > mostTried {
		return true
	}
	for n, u := range unknown {
		for k := 1; k < len(w); k++ {
			if u.invoke.Time <= w[k].hi && fits(slices.Insert(slices.Clone(w), k, window{u.invoke.Time, math.MaxInt64, u.lease}), slices.Delete(slices.Clone(unknown), n, n+1), eps) {
				return true
			}
		}
	}
	return false
}

// raise raises the windows before the last one as far as those after them
// demand; false if one cannot be raised so far.
func raise(w []window, eps func(time.Duration) time.Duration) bool {
	lo := w[len(w)-1].lo
	for k := len(w) - 2; k >= 0; k-- {
		need := lo - int64(w[k].lease+eps(w[k].lease))
		if need > w[k].hi {
			return false
		}
		lo = max(w[k].lo, need)
	}
	return true
}

func earliestOf(last window, renewals []renewal, eps func(time.Duration) time.Duration) Moment {
	less := func(d time.Duration) time.Duration { return max(0, d-eps(d)) }
	end := at(last.lo).plus(less(last.lease))
	for n := range renewals {
		if r := &renewals[n]; !r.ok {
			end = earlier(end, at(max(last.lo, r.invoke.Time)).plus(less(r.lease)))
		}
	}
	return end
}

// grantedBetween says whether another tenure was granted after the paper of t
// had ended and before the renewal was answered.
func (r *record) grantedBetween(t *Tenure, n renewal) bool {
	for _, j := range r.tenures {
		if j.Key == t.Key && j != t && t.Return.before(j.Return) && j.Return.before(n.reply) {
			return true
		}
	}
	return false
}
