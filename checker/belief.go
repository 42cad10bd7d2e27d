package checker

import (
	"fmt"
	"math"
	"slices"

	"github.com/lockcheck/lockcheck/lockspec"
)

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
