package checker

import (
	"fmt"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// judgeOwnership: a former holder was told that it renewed or released,
// although another had been granted the key since. Whether the other lost
// anything by it is for a probe to show; the answer alone is wrong.
//
// A lock that claims idempotent releases may answer ok again and again after
// the first ok.
func (r *record) judgeOwnership(v *Verdict) {
	if r.header.Capacity > 1 {
		return
	}
	for _, group := range r.byKey() {
		for n, i := range group {
			released := false
			for k := range i.releases {
				c := &i.releases[k]
				if c.outcome != lockspec.OK {
					continue
				}
				if !released || !r.header.Claimed(lockspec.IdempotentRelease) {
					r.ownedBy(v, i, c, group[n+1:])
				}
				released = true
			}
			for k := range i.checks {
				if c := &i.checks[k]; c.op == history.Renew && c.outcome == lockspec.OK {
					r.ownedBy(v, i, c, group[n+1:])
				}
			}
		}
	}
}

// ownedBy finds the first later tenure that was granted before the call.
func (r *record) ownedBy(v *Verdict, i *Tenure, c *call, rest []*Tenure) {
	for _, j := range rest {
		if !j.Return.before(c.invoke) {
			return
		}
		if !i.precedes(j) || !r.exclude(i, j) {
			continue
		}
		v.find(Finding{Kind: Ownership, Rule: "ok-after-successor", Level: Service, Key: i.Key, Tenures: []string{i.ID, j.ID},
			Events:  []int64{j.Return.Index, c.invoke.Index, c.reply.Index},
			Message: fmt.Sprintf("%s was answered ok to a %s although %s had been granted %q before it was asked for", i.ID, c.op, j.ID, i.Key)})
		return
	}
}

// precedes says whether j is surely the later of the two: by token, or, where
// there are none, because i was granted before j was asked for.
func (i *Tenure) precedes(j *Tenure) bool {
	if i.Token != 0 && j.Token != 0 {
		return i.Token < j.Token
	}
	return i.Return.before(j.Invoke)
}
