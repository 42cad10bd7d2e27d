// Package reports holds the writers of a report: pure functions of a
// result.Report, a file each.
package reports

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TextOptions say how a text report looks.
type TextOptions struct {
	Color   bool
	Verbose bool // every case, not only those that have something to say

	_ struct{}
}

// Text writes the report for people: the verdict first, then what is wrong,
// then what was shown, each with its evidence. Colour is never the only
// carrier of a meaning.
func Text(w io.Writer, r *result.Report, o *TextOptions) error {
	if o == nil {
		o = &TextOptions{}
	}
	t := &text{o: o, r: r}
	t.head()
	t.cases()
	t.findings()
	t.stories()
	t.claims()
	t.summary()
	_, err := io.WriteString(w, t.b.String())
	return err
}

type text struct {
	b strings.Builder
	o *TextOptions
	r *result.Report
}

func (t *text) line(format string, args ...any) { fmt.Fprintf(&t.b, format+"\n", args...) }

// marks of the statuses: a sign beside the word, so that a list can be skimmed.
var marks = map[result.Status]struct{ sign, color string }{
	result.Pass:         {"+", "32"},
	result.Hazard:       {"~", "36"},
	result.Unsupported:  {"-", "2"},
	result.NotRun:       {"-", "2"},
	result.Skipped:      {"-", "33"},
	result.Inconclusive: {"?", "33"},
	result.Error:        {"!", "35"},
	result.Fail:         {"X", "31"},
}

func (t *text) status(s result.Status) string {
	m := marks[s]
	return t.paint(m.color, fmt.Sprintf("%s %-12s", m.sign, s))
}

func (t *text) paint(color, s string) string {
	if !t.o.Color {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

func (t *text) head() {
	t.line("target   %s (class %s)", t.r.Target, t.r.Class)
	if t.r.Profile != "" { // an imported history claims none
		t.line("profile  %s: %s", t.r.Profile, profileMeans[t.r.Profile])
	}
	if len(t.r.Declared) > 0 {
		t.line("hazards  %s (declared by the target, tolerated where contained)", join(t.r.Declared))
	}
	t.line("")
}

var profileMeans = map[lockspec.Profile]string{
	lockspec.Advisory:        "the lock saves double work; it is not relied on for correctness",
	lockspec.ExclusiveHolder: "no two running holders, ever",
	lockspec.FencedResource:  "exclusive, and the resource turns stale holders away",
}

func (t *text) cases() {
	for i := range t.r.Cases {
		c := &t.r.Cases[i]
		if c.Status == result.NotRun && !t.o.Verbose {
			continue
		}
		t.line("%s %-4s %s%s", t.status(c.Status), c.ID, c.Name, took(c))
		if c.Reason != "" && c.Status != result.Fail {
			t.line("               %s", c.Reason)
		}
	}
	t.line("")
}

func took(c *result.Case) string {
	if c.Duration < int64(time.Millisecond) {
		return ""
	}
	return fmt.Sprintf(" (%s)", time.Duration(c.Duration).Round(time.Millisecond))
}

func (t *text) findings() {
	for i := range t.r.Findings {
		f := &t.r.Findings[i]
		kind := t.paint("31", string(f.Kind)+"/"+f.Rule)
		if f.Certainty != "certain" {
			kind = t.paint("33", "doubt "+string(f.Kind)+"/"+f.Rule+" ("+f.Certainty+")")
		}
		where := ""
		if f.Case != "" {
			where = " in " + f.Case
		}
		t.line("%s %s%s", f.ID, kind, where)
		t.line("   %s", f.Message)
		if len(f.Events) > 0 {
			t.line("   evidence: events %s of history.jsonl", ints(f.Events))
		}
		t.line("   again:    %s", f.Repro)
		t.line("")
	}
}

func ints(ns []int64) string {
	var parts []string
	for _, n := range ns {
		parts = append(parts, fmt.Sprint(n))
	}
	return strings.Join(parts, ", ")
}

// stories tells of the cases in which something was made to happen.
func (t *text) stories() {
	for i := range t.r.Cases {
		c := &t.r.Cases[i]
		if len(c.Landed) == 0 || len(c.Story) == 0 {
			continue
		}
		t.line("What happened in %s, %s", c.ID, c.Name)
		for _, s := range c.Story {
			t.line("   %s", s)
		}
		t.hazards(c.Hazards)
		t.line("")
	}
}

// hazards shows the proof for one pair of each former holder, the one that
// says most about the resource; results.json has all.
func (t *text) hazards(all []result.HazardShown) {
	told := map[string]bool{}
	for _, h := range all {
		k := string(h.Name) + h.Pair[0]
		if told[k] {
			continue
		}
		told[k] = true
		best, n := h, 0
		for _, o := range all {
			if string(o.Name)+o.Pair[0] != k {
				continue
			}
			n++
			if len(o.Evidence[len(o.Evidence)-1].Events) > len(best.Evidence[len(best.Evidence)-1].Events) {
				best = o
			}
		}
		t.line("   hazard %s was shown by %s and %s, and contained%s:", best.Name, best.Pair[0], best.Pair[1], others(n-1, best.Pair[0]))
		for _, e := range best.Evidence {
			t.line("     (%s) %-5s %s", e.Part, best.Contained[e.Part], e.Text)
		}
	}
}

func others(n int, former string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (as in %d more pairs of %s)", n, former)
}

func (t *text) claims() {
	for _, l := range t.r.Lacks {
		t.line("not enough evidence: %s", l)
	}
	for _, g := range t.r.Gate {
		t.line("short of the baseline: %s", g)
	}
	for _, n := range t.r.Notes {
		t.line("note: %s", n)
	}
	for _, b := range []struct{ key, says string }{
		{"takeover_ns", "takeover after a kill"}, {"loss_latency_ns", "loss signalled after it was due"}, {"overlap_ns", "two believed at once"},
	} {
		if d, ok := t.r.Bounds[b.key]; ok {
			t.line("measured: %s, at most %s", b.says, time.Duration(d).Round(10*time.Microsecond))
		}
	}
	t.line("")
}

// summary is the last line: the verdict, and what it rests on.
func (t *text) summary() {
	var parts []string
	for _, row := range result.Statuses() {
		if n := t.r.Count(row.Status); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, row.Status))
		}
	}
	word := strings.ToUpper(string(t.r.Verdict))
	if t.r.Interrupted {
		word += " (interrupted)"
	}
	if t.r.Partial {
		word += " (partial)"
	}
	if len(t.r.Gate) > 0 {
		word += " (short of the baseline)"
	}
	t.line("%s  %s  seed=%d  in %s", t.paint(marks[t.r.Verdict].color, word), strings.Join(parts, ", "), t.r.Seed,
		time.Duration(t.r.Duration).Round(100*time.Millisecond))
}

func join[T ~string](words []T) string {
	var parts []string
	for _, w := range words {
		parts = append(parts, string(w))
	}
	return strings.Join(parts, " ")
}
