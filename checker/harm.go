package checker

import (
	"fmt"
	"slices"

	"github.com/lockcheck/lockcheck/lockspec"
)

// judgeHarm: an update lost in the open register although the two did not
// believe at once and nothing struck either of them, by the time that it wrote,
// is an overlap that only the resource saw.
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
			e, p := r.excused(over, u.over)
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
