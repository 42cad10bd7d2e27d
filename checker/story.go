package checker

import (
	"fmt"
	"time"
)

// Story tells in plain words what the history shows: who held when a fault
// struck, how long two believed at once, what became of the resource, how long
// takeover took. Nothing is told of a history in which nothing happened.
func (v *Verdict) Story() []string {
	var s []string
	for _, f := range v.Faults {
		if f.Landed && !f.Found {
			s = append(s, v.tellFault(f))
		}
	}
	for _, o := range v.Measures.Overtaken() {
		s = append(s, v.tellOvertaken(o))
	}
	for _, u := range v.Measures.LostUpdates {
		s = append(s, fmt.Sprintf("open register: %s and %s both wrote number %d: two orders got invoice %d, one update is lost",
			u.Over, u.Tenure, u.Number+1, u.Number+1))
	}
	if v.Measures.StaleTried > 0 {
		s = append(s, fmt.Sprintf("fenced register: %d stale writes tried, %d refused, %d updates lost",
			v.Measures.StaleTried, v.Measures.StaleDenied, v.Measures.FencedHarm))
	}
	for _, d := range v.Measures.Takeovers {
		s = append(s, fmt.Sprintf("takeover: the killed holder's key was granted again after %s", round(d)))
	}
	return s
}

func (v *Verdict) tellFault(f *Fault) string {
	end := "it lasted until the end"
	if f.End != never {
		end = "it lasted " + round(Span{f.Start, f.End}.Length()).String()
	}
	holder := "nobody on it held"
	for _, t := range v.Tenures {
		if f.strikes(t) && t.Return.before(f.Start) && !t.Believed.To.before(f.Start) {
			holder = fmt.Sprintf("%s held the key there%s", t.ID, token(t))
		}
	}
	return fmt.Sprintf("%s at %s; %s; %s", f.describe(), Clock(f.Start.Time), end, holder)
}

// Overtaken is a former holder that went on believing while others held.
type Overtaken struct {
	Former string
	By     []string      // in the order of their grants
	Span   Span          // from the first of those grants to the end of the belief
	Both   time.Duration // how long two believed at once within it
}

// Overtaken groups the overlaps by the former holder.
func (m *Measures) Overtaken() []Overtaken {
	var all []Overtaken
	index := map[string]int{}
	for _, o := range m.Overlaps {
		n, known := index[o.Former]
		if !known {
			n = len(all)
			index[o.Former] = n
			all = append(all, Overtaken{Former: o.Former, Span: o.Span})
		}
		g := &all[n]
		g.By = append(g.By, o.Latter)
		g.Span.To = later(g.Span.To, o.Span.To)
		g.Both += o.Span.Length()
	}
	return all
}

func (v *Verdict) tellOvertaken(o Overtaken) string {
	i, j := v.tenure(o.Former), v.tenure(o.By[0])
	lost := "its loss was never signalled"
	if l := i.firstLoss(); l != never {
		lost = "it learnt of its loss at " + Clock(l.Time)
	}
	more := ""
	if n := len(o.By) - 1; n > 0 {
		more = fmt.Sprintf(", then %d more in turn", n)
	}
	return fmt.Sprintf("%s on %s%s held from %s and its promise ended at %s; %s on %s%s was granted the key at %s%s; two believed at once for %s; %s",
		i.ID, i.Node, token(i), Clock(i.Return.Time), Clock(i.PaperEnd.Time), j.ID, j.Node, token(j), Clock(j.Return.Time), more, round(o.Both), lost)
}

func token(t *Tenure) string {
	if t.Token == 0 {
		return ""
	}
	return fmt.Sprintf(" (token %d)", t.Token)
}

func (v *Verdict) tenure(id string) *Tenure {
	for _, t := range v.Tenures {
		if t.ID == id {
			return t
		}
	}
	return &Tenure{ID: id}
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
