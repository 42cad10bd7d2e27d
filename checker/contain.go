package checker

import (
	"fmt"
	"slices"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// contained proves, or fails to, that a declared hazard did no more than it
// was declared to do. Its parts:
//
//	(a) the fault is a cause: it landed, on the former holder, at the right time;
//	(b) the service never promised the key to both;
//	(c) the former holder learnt of its loss in time, where that is claimed;
//	(d) the resource turned the former holder away, where fencing is claimed.
func (r *record) contained(res *resource, i, j *Tenure, s Span, h *Fault) Hazard {
	return Hazard{Name: h.Hazard, Former: i.ID, Latter: j.ID, Fault: h.ID, Overlap: s, Evidence: []Evidence{
		{"a", holds(true), []int64{h.Start.Index, i.Return.Index}, fmt.Sprintf(
			"%s began at %s and healed at %s; %s believed from %s on, %s overtook it at %s",
			h.describe(), Clock(h.Start.Time), Clock(h.End.Time), i.ID, Clock(i.Return.Time), j.ID, Clock(j.Return.Time))},
		r.disjoint(i, j),
		r.learnt(i, h),
		r.fenced(res, i, j),
	}}
}

func holds(ok bool) string {
	if ok {
		return "true"
	}
	return "false"
}

func (r *record) disjoint(i, j *Tenure) Evidence {
	_, c := meetAll(i.Entitled, j.Entitled, r.eps(i.Lease))
	end := Clock(i.Return.Time)
	if n := len(i.Entitled); n > 0 {
		end = Clock(i.Entitled[n-1].To.Time)
	}
	return Evidence{"b", holds(c == apart), []int64{i.Return.Index, j.Return.Index}, fmt.Sprintf(
		"%s was entitled until %s, %s from %s on", i.ID, end, j.ID, Clock(j.Return.Time))}
}

// learnt is part (c). ε is on the lock's side: only what is later by more is
// too late.
func (r *record) learnt(i *Tenure, h *Fault) Evidence {
	limit := r.lossLimit(i, h)
	late := limit.plus(r.eps(i.Lease))
	if r.header.Claimed(lockspec.HoldCheck) {
		for k := range i.checks {
			if c := &i.checks[k]; c.outcome == lockspec.OK && late.before(c.invoke) {
				return Evidence{"c", "false", []int64{c.invoke.Index, c.reply.Index}, fmt.Sprintf(
					"a %s of %s was asked for at %s and answered ok, although the loss was due by %s", c.op, i.ID, Clock(c.invoke.Time), Clock(limit.Time))}
			}
		}
	}
	if !r.header.Claimed(lockspec.LossSignal) {
		return Evidence{Part: "c", Holds: "n/a", Text: "no loss signal is claimed"}
	}
	lost := i.firstLoss()
	gone := i.gaveUp(r.faults)
	switch {
	case !late.before(lost):
		return Evidence{"c", "true", i.lossEvents(), fmt.Sprintf("loss of %s was raised at %s, due by %s", i.ID, Clock(lost.Time), Clock(limit.Time))}
	case !late.before(gone):
		return Evidence{Part: "c", Holds: "true", Text: fmt.Sprintf("%s gave the key up at %s by itself", i.ID, Clock(gone.Time))}
	case r.end.before(late):
		return Evidence{Part: "c", Holds: "n/a", Text: fmt.Sprintf("the history ends before the loss of %s was due", i.ID)}
	case lost == never:
		return Evidence{Part: "c", Holds: "false", Text: fmt.Sprintf("loss of %s was due by %s and never signalled", i.ID, Clock(limit.Time))}
	default:
		return Evidence{"c", "false", i.lossEvents(), fmt.Sprintf("loss of %s was raised at %s, due by %s", i.ID, Clock(lost.Time), Clock(limit.Time))}
	}
}

// gaveUp is when the process called a release or was killed.
func (t *Tenure) gaveUp(faults []*Fault) Moment {
	m := never
	for _, r := range t.releases {
		m = earlier(m, r.invoke)
	}
	for _, f := range faults {
		if f.killed(t) {
			m = earlier(m, later(f.Start, t.Return))
		}
	}
	return m
}

func (t *Tenure) lossEvents() []int64 {
	var events []int64
	for _, l := range t.losses {
		if l.latest.stamped() {
			events = append(events, l.latest.Index)
		}
	}
	return events
}

// fenced is part (d). Writes of i before j's seal are harmless: j reads them.
func (r *record) fenced(res *resource, i, j *Tenure) Evidence {
	if !r.header.Claimed(lockspec.Fencing) {
		return Evidence{Part: "d", Holds: "n/a", Text: "no fencing is claimed"}
	}
	if i.Token >= j.Token {
		return Evidence{"d", "false", []int64{i.Return.Index, j.Return.Index}, fmt.Sprintf(
			"token %d of %s is not below token %d of %s", i.Token, i.ID, j.Token, j.ID)}
	}
	seal, refused := res.seal(j.ID)
	by := j
	if k := res.sealedOver(refused, i, j); k != nil {
		seal, refused, by = refused.against, nil, k
	}
	if refused != nil {
		return Evidence{"d", "false", []int64{refused.at.Index}, fmt.Sprintf("the resource refused the seal of %s, token %d", j.ID, j.Token)}
	}
	if seal == nil {
		return Evidence{Part: "d", Holds: "n/a", Text: fmt.Sprintf("%s never wrote", j.ID)}
	}
	e := Evidence{Part: "d", Holds: "true", Events: []int64{seal.at.Index}}
	denied := 0
	for _, w := range res.writes(i.ID) {
		if w.at.before(seal.at) {
			continue
		}
		e.Events = append(e.Events, w.at.Index)
		if w.accepted == history.Accepted {
			e.Holds, e.Text = "false", fmt.Sprintf("the resource accepted token %d of %s after it had seen token %d of %s", i.Token, i.ID, by.Token, by.ID)
			return e
		}
		denied++
	}
	if n := res.harmed[i.ID] + res.harmed[j.ID]; n > 0 {
		e.Holds, e.Text = "false", fmt.Sprintf("%d updates were lost in the fenced register", n)
		return e
	}
	e.Text = fmt.Sprintf("the resource had seen token %d of %s; %d stale writes of %s with token %d were refused, none accepted",
		by.Token, by.ID, denied, i.ID, i.Token)
	return e
}

// sealedOver is the holder after j, other than i, for whose sake the resource
// refused j's seal: j was overtaken itself before it had come to the resource,
// and what turned it away turns i away too.
//
// Counter-example to calling that a seal that failed: a server's clock jumps
// twice, the second holder's reply is slow, and the third has sealed before it.
func (s *resource) sealedOver(refused *access, i, j *Tenure) *Tenure {
	if refused == nil || refused.against == nil {
		return nil
	}
	k := s.tenure(refused.against.tenure)
	if k == nil || k == i || k.Token <= j.Token {
		return nil
	}
	return k
}

// wantSeal: where fencing is claimed and hazards were shown, at least one of
// them must have met a later holder who wrote; else nothing was fenced.
func (r *record) wantSeal(v *Verdict) {
	if !r.header.Claimed(lockspec.Fencing) || len(v.Hazards) == 0 {
		return
	}
	for i := range v.Hazards {
		if slices.ContainsFunc(v.Hazards[i].Evidence, func(e Evidence) bool { return e.Part == "d" && e.Holds == "true" }) {
			return
		}
	}
	h := &v.Hazards[0]
	v.find(Finding{Kind: Fencing, Rule: "never-fenced", Level: Resource, Key: r.keyOf(h.Former), Tenures: []string{h.Former, h.Latter}, Faults: []string{h.Fault},
		Certainty: "no later holder wrote",
		Message:   fmt.Sprintf("the hazard %s was shown, and no holder after it wrote to the fenced register", h.Name)})
}

func (r *record) keyOf(tenure string) string {
	for _, t := range r.tenures {
		if t.ID == tenure {
			return t.Key
		}
	}
	return ""
}
