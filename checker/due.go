package checker

import (
	"slices"

	"github.com/lockcheck/lockcheck/lockspec"
)

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
		if r.deaf(i, h, next.plus(r.header.Bounds.LossFor(i.Lease))) {
			return later(next, i.PaperEnd)
		}
		return next
	case self && !i.seesRenew:
		return later(i.PaperEnd, h.Start.plus(i.Lease))
	}
	return i.PaperEnd
}

// deaf says whether something else struck the tenure between the fault and the
// moment, so that the renewal that would have told of it, or its answer, may
// not have come through: the holder then knows when its paper ends.
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
