package checker

import (
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// judgeRenewals: every renewal that was answered ok must have found the lease
// alive. A lease that had run out and was renewed all the same was revived,
// which is tolerated only where it is declared and nobody was granted the key
// in between.
//
// Proof. Let the grant and the ok renewals be points w0 ≤ w1 ≤ … ≤ wm, each
// within the interval [lo, hi] of its operation, and w(k+1) ≤ w(k) + lease(k).
// These are difference constraints along a line; they have a solution iff,
// after lo(k) is raised to lo(k+1) − lease(k) from the last to the first and to
// lo(k−1) from the first to the last, lo(k) ≤ hi(k) for all k. A renewal of
// unknown outcome between two of them may have landed once: it allows ONE of
// the steps around it its own lease more. ε is added to every step.
func (r *record) judgeRenewals(v *Verdict) {
	for _, t := range r.tenures {
		if t.Session || t.shared || t.late || r.selfRenewing(t) && !t.seesRenew {
			continue
		}
		late, ok := r.revived(t)
		if !ok || r.header.Claimed(lockspec.Revives) && !r.grantedBetween(t, late) {
			continue
		}
		f := Finding{Kind: Renewal, Rule: "revived", Level: Service, Key: t.Key, Tenures: []string{t.ID},
			Events:  []int64{late.invoke.Index, late.reply.Index},
			Message: fmt.Sprintf("a renewal of %s that was asked for at %s was answered ok although its lease had ended: it renewed what was no longer held", t.ID, Clock(late.invoke.Time))}
		if struck := r.struck(t); len(struck) > 0 {
			f.Certainty = "a fault struck the tenure"
		}
		v.find(f)
	}
}

// witness is a point at which the lease was surely alive.
type witness struct {
	lo, hi int64
	lease  time.Duration
}

// revived is the first renewal that no placing of the points explains.
func (r *record) revived(t *Tenure) (renewal, bool) {
	w := []witness{{t.grantSent(), t.Return.Time, t.Lease}}
	var of []renewal
	spare := time.Duration(0)
	for _, n := range t.renewals {
		lo := n.sent
		if lo == 0 {
			lo = n.invoke.Time
		}
		if !n.ok {
			spare = max(spare, n.lease) // may have landed once
			continue
		}
		if n.own && n.sent == 0 {
			return renewal{}, false // when it landed nobody knows
		}
		w = append(w, witness{lo, n.reply.Time, n.lease})
		of = append(of, n)
	}
	used := false
	for k := len(w) - 2; k >= 0; k-- {
		need := w[k+1].lo - int64(w[k].lease+r.eps(w[k].lease))
		if need > w[k].hi && spare > 0 && !used {
			need, used = need-int64(spare), true
		}
		if w[k].lo = max(w[k].lo, need); w[k].lo > w[k].hi {
			return of[k], true
		}
	}
	return renewal{}, false
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
