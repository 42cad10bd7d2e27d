package checker

import (
	"fmt"
	"slices"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// judgeOwnership: a former holder was told that it renewed or released,
// although another had been granted the key since. Whether the other lost
// anything by it is for a probe to show; the answer alone is wrong.
//
// So is an ok to what was already released. A lock that claims idempotent
// releases may answer ok to further releases, never to a renewal.
func (r *record) judgeOwnership(v *Verdict) {
	for _, group := range r.byKey() {
		for n, i := range group {
			released := never // the reply of the first ok release
			for k := range i.releases {
				c := &i.releases[k]
				if c.outcome != lockspec.OK {
					continue
				}
				again := released.before(c.invoke)
				released = earlier(released, c.reply)
				if again && r.header.Claimed(lockspec.IdempotentRelease) {
					continue
				}
				r.owned(v, i, c, group[n+1:], again)
			}
			for k := range i.checks {
				if c := &i.checks[k]; c.op == history.Renew && c.outcome == lockspec.OK {
					r.owned(v, i, c, group[n+1:], released.before(c.invoke))
				}
			}
		}
	}
}

// owned judges one call that was answered ok.
func (r *record) owned(v *Verdict, i *Tenure, c *call, rest []*Tenure, again bool) {
	f := Finding{Kind: Ownership, Level: Service, Key: i.Key, Tenures: []string{i.ID}, Events: []int64{c.invoke.Index, c.reply.Index}}
	switch {
	case r.header.Capacity <= 1 && r.ownedBy(v, i, c, rest):
	case again:
		f.Rule = "ok-after-release"
		f.Message = fmt.Sprintf("%s was answered ok to a %s although its release had been answered ok before", i.ID, c.op)
		v.find(f)
	case r.expired(i, c):
		f.Rule = "ok-after-expiry"
		f.Message = fmt.Sprintf("%s was answered ok to a %s at %s although its lease had ended; releases are claimed to check the owner", i.ID, c.op, Clock(c.invoke.Time))
		v.find(f)
	}
}

// expired says whether the lease had surely ended when a release was called. A
// lock that does not claim to check the owner may answer ok to a release of
// what nobody else has touched.
func (r *record) expired(i *Tenure, c *call) bool {
	if c.op != history.Release || r.header.Claims[lockspec.OwnerChecked] != history.Proven || r.header.Bounds.Takeover == 0 || len(i.releases) > 1 {
		return false
	}
	landed, lease := i.Return, i.Lease
	for _, n := range i.renewals {
		landed, lease = later(landed, n.reply), max(lease, n.lease)
	}
	if i.Session || i.shared || r.selfRenewing(i) || landed == never || len(r.struck(i)) > 0 {
		return false
	}
	return landed.plus(lease + r.header.Bounds.Takeover + r.eps(lease)).before(c.invoke)
}

// ownedBy finds the first later tenure that was granted before the call.
func (r *record) ownedBy(v *Verdict, i *Tenure, c *call, rest []*Tenure) bool {
	for _, j := range rest {
		if !j.Return.before(c.invoke) {
			return false
		}
		if !i.precedes(j) || !r.exclude(i, j) || r.forgotten(j, c) {
			continue
		}
		f := Finding{Kind: Ownership, Rule: "ok-after-successor", Level: Service, Key: i.Key, Tenures: []string{i.ID, j.ID},
			Events:  []int64{j.Return.Index, c.invoke.Index, c.reply.Index},
			Message: fmt.Sprintf("%s was answered ok to a %s although %s had been granted %q before it was asked for", i.ID, c.op, j.ID, i.Key)}
		if r.askedTwice(i, j) {
			f.Certainty = secondCopy
		}
		v.find(f)
		return true
	}
	return false
}

// forgotten says whether a declared fault may have taken the key from j before
// the call was answered.
//
// Counter-example to blaming i then: a key is evicted, j is granted it, and a
// replica takes over that has heard of neither: on it, i holds.
func (r *record) forgotten(j *Tenure, c *call) bool {
	return slices.ContainsFunc(r.faults, func(h *Fault) bool {
		return h.Landed && r.declared(h) && h.takes(j, j.Session) && h.Start.before(c.reply)
	})
}

// askedTwice says whether a copy of i's acquisition may have arrived after j was
// granted the key. It is granted as the first was, if j has released by then.
func (r *record) askedTwice(i, j *Tenure) bool {
	return slices.ContainsFunc(r.faults, func(h *Fault) bool { return h.copies(i) && j.Return.before(h.End) })
}

// copies says whether the acquisition of t may have been delivered twice.
func (f *Fault) copies(t *Tenure) bool {
	return f.Name == "duplicate" && f.strikes(t) && f.Start.before(t.Return) && t.Invoke.before(f.End)
}

// secondCopy is why an answer of the owner's is no proof.
const secondCopy = "a second copy of its acquisition may have been granted the key again"

// precedes says whether j is surely the later of the two: by token, or, where
// there are none, because i was granted before j was asked for.
func (i *Tenure) precedes(j *Tenure) bool {
	if i.Token != 0 && j.Token != 0 {
		return i.Token < j.Token
	}
	return i.Return.before(j.Invoke)
}
