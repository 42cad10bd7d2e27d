package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockcheck/lockcheck/checker/history"
)

// Linearization is an order in which the operations of a legal history can have
// taken effect, a line an effect, key by key: the proofs of certain and chain,
// carried out. Of an illegal history it is where it breaks off.
func Linearization(h *history.Header, m Model, events []history.Event) []string {
	r := collect(h, events)
	m = m.For(h)
	var out []string
	for _, group := range r.byKey() {
		out = append(out, fmt.Sprintf("%q, as %s:", group[0].Key, m))
		if m.chained() {
			out = append(out, r.explainChain(m, group)...)
		} else {
			out = append(out, r.explainHolds(m, group)...)
		}
	}
	return out
}

// explainChain places grants one after the other, each as early as it can be.
func (r *record) explainChain(m Model, group []*Tenure) []string {
	if m.Kind == ModelFenced {
		group = slices.Clone(group)
		slices.SortStableFunc(group, func(a, b *Tenure) int { return cmp.Compare(a.Token, b.Token) })
	}
	var out []string
	c := chain{end: longAgo}
	for _, t := range group {
		g, ok := c.place(t.stay())
		if !ok {
			return append(out, fmt.Sprintf("  %s%s cannot follow: it was answered at %s, the one before it was not over until %s", t.ID, token(t), Clock(t.Return.Time), Clock(g.Time)))
		}
		c.end = r.earliestEnd(t, g)
		out = append(out, fmt.Sprintf("  %s%s granted at %s (asked %s, answered %s), over at %s", t.ID, token(t), Clock(g.Time), Clock(t.Invoke.Time), Clock(t.Return.Time), Clock(c.end.Time)))
	}
	return out
}

// explainHolds puts every grant at its return, every release at its invocation.
func (r *record) explainHolds(m Model, group []*Tenure) []string {
	type effect struct {
		at   Moment
		text string
	}
	var all []effect
	for _, t := range group {
		all = append(all, effect{t.Return, fmt.Sprintf("  %s  %s%s of %s granted", Clock(t.Return.Time), t.ID, token(t), t.Process)})
		for _, c := range t.releases {
			if m.Kind == ModelMutex && c.refused() {
				continue // had no effect
			}
			all = append(all, effect{c.invoke, fmt.Sprintf("  %s  %s released", Clock(c.invoke.Time), t.ID)})
			break
		}
	}
	slices.SortStableFunc(all, func(a, b effect) int { return order(a.at, b.at) })
	var out []string
	for _, e := range all {
		out = append(out, e.text)
	}
	return out
}

// Contradiction is the least that a finding rests on: of each of its tenures,
// when it was asked for and granted, what it was promised, and the first
// release, with the indices of the events.
func Contradiction(f Finding, h *history.Header, events []history.Event) []string {
	r := collect(h, events)
	var out []string
	for _, t := range r.tenures {
		if !slices.Contains(f.Tenures, t.ID) || t.Key != f.Key {
			continue
		}
		line := fmt.Sprintf("  %s%s of %s: asked %s (event %d), granted by %s (event %d)", t.ID, token(t), t.Process, Clock(t.Invoke.Time), t.Invoke.Index, Clock(t.Return.Time), t.Return.Index)
		if !t.Session {
			line += fmt.Sprintf(", lease %s", t.Lease)
		}
		for _, c := range t.releases {
			line += fmt.Sprintf(", release called %s (event %d) and answered %s", Clock(c.invoke.Time), c.invoke.Index, c.outcome)
		}
		if len(t.releases) == 0 {
			line += ", never released"
		}
		out = append(out, line)
	}
	if len(out) > 0 {
		out = append(out, fmt.Sprintf("  no order of these %d explains every answer: %s", len(out), strings.TrimSuffix(f.Message, ".")))
	}
	return out
}
