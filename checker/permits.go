package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// judgePermits: at no instant may more be held than there are permits.
//
// Proof. Between the return of its acquisition and the first thing that may
// have ended it a tenure surely holds, whatever the points at which the
// operations took effect, so that a sum above the capacity has no
// linearization. Conversely, without expiry, let every grant take effect at its
// return and every release at its invocation: if the certain holds obey the
// capacity at every instant, that is a linearization. The sum rises only at the
// start of a hold, so those are the instants looked at: O(n log n).
//
// Under leases the converse fails (a chain of tenures may not fit although
// every instant does): there judgeRoom looks for a proof.
//
// Counter-example to looking at pairs: of two permits three are taken; every
// two of the three are right.
func (r *record) judgePermits(v *Verdict, res *resource) {
	if r.header.Capacity <= 1 {
		return
	}
	for _, group := range r.byKey() {
		var open []*Tenure
		for _, j := range group {
			open = slices.DeleteFunc(open, func(i *Tenure) bool { return r.over(i).before(j.Return) })
			open = append(open, j)
			r.crowd(v, res, open, j)
		}
	}
}

// crowd judges the instant from which j held.
func (r *record) crowd(v *Verdict, res *resource, open []*Tenure, j *Tenure) {
	entitled := func(t *Tenure, less time.Duration) bool {
		return slices.ContainsFunc(t.Entitled, func(s Span) bool { return s.holds(j.Return, less) })
	}
	believed := func(t *Tenure, less time.Duration) bool {
		return slices.ContainsFunc(t.beliefs(), func(s Span) bool { return s.holds(j.Return, less) })
	}
	within := func(holds func(*Tenure, time.Duration) bool, sure bool) (held []*Tenure, sum int) {
		for _, t := range open {
			less := time.Duration(0)
			if sure {
				less = r.eps(t.Lease)
			}
			if holds(t, less) {
				held, sum = append(held, t), sum+t.Count
			}
		}
		return held, sum
	}
	if held, sum := within(entitled, true); sum > r.header.Capacity {
		v.find(r.crowdFinding("entitled", Service, held, sum, j))
	} else if held, sum := within(entitled, false); sum > r.header.Capacity {
		f := r.crowdFinding("entitled", Service, held, sum, j)
		f.Certainty = "shorter than ε"
		v.find(f)
	} else if held, sum := within(believed, true); sum > r.header.Capacity {
		r.crowdBelieved(v, res, held, sum, j)
	}
}

// holds says whether the span contains the moment, and still does so where a
// lease's end is taken earlier.
func (s Span) holds(m Moment, less time.Duration) bool {
	to := s.To
	if to.measured() {
		to.Time -= int64(less)
	}
	return !m.before(s.From) && m.before(to)
}

// crowdBelieved: more believed than there are permits, though fewer were
// promised. Whoever was overtaken and is excused for it gives his permits back;
// what is still too many then is nobody's hazard.
//
// Counter-example to stopping at the first who is excused: two of three permits
// were overtaken, one by a pause and one by nothing.
func (r *record) crowdBelieved(v *Verdict, res *resource, held []*Tenure, sum int, j *Tenure) {
	var blamed Verdict
	for _, i := range held {
		if sum <= r.header.Capacity {
			return
		}
		if i == j || slices.ContainsFunc(i.Entitled, func(s Span) bool { return s.holds(j.Return, 0) }) {
			continue
		}
		s := r.believed(i, j)
		v.addOverlap(i, j, s)
		var own Verdict
		r.judgeBelief(&own, res, i, j, s)
		if len(own.Findings) == 0 {
			sum -= i.Count
			v.Hazards = append(v.Hazards, own.Hazards...)
			v.Doubts = append(v.Doubts, own.Doubts...)
			continue
		}
		blamed.Findings = append(blamed.Findings, own.Findings...)
	}
	switch {
	case sum <= r.header.Capacity:
	case len(blamed.Findings) > 0:
		v.find(blamed.Findings[0])
	default:
		v.find(r.crowdFinding("believed-without-cause", Lease, held, sum, j))
	}
}

func (r *record) crowdFinding(rule string, level Level, held []*Tenure, sum int, j *Tenure) Finding {
	f := Finding{Kind: Overlap, Rule: rule, Level: level, Key: j.Key}
	for _, t := range held {
		f.Tenures = append(f.Tenures, t.ID)
		f.Events = append(f.Events, t.Return.Index)
	}
	f.Message = fmt.Sprintf("%s held %d of %d permits of %q at %s", strings.Join(f.Tenures, ", "), sum, r.header.Capacity, j.Key, Clock(j.Return.Time))
	return f
}
