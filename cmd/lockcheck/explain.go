package main

import (
	"fmt"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// report is what a check against a model says.
func (c *checking) report(h *history.Header, sum *checker.Summary, truncated bool) *result.Report {
	m := c.want.For(h)
	r := &result.Report{Target: h.Target, Class: h.Class, Profile: h.Profile, Declared: h.Hazards, Claims: h.Claims,
		Command: "lockcheck check " + c.path + " --model " + m.String(), Bounds: map[string]int64{}, Environment: result.ThisEnvironment(),
		Suite: h.Suite, Checker: checker.Version, Tool: h.Tool, Seed: h.Seed, Started: h.Started, Cases: []result.Case{}, Findings: []result.Finding{}}
	k := result.Case{Suite: "check", Name: "the whole history, as " + m.String(), Status: result.Of(sum.Outcome)}
	r.AddFindings(&k, sum.Findings)
	for i := range r.Findings {
		r.Findings[i].Repro = r.Command
	}
	if len(sum.Findings) > 0 {
		k.Reason = sum.Findings[0].Message
	}
	r.Cases = append(r.Cases, k)
	r.Notes = append(r.Notes, fmt.Sprintf("%d events, %d tenures, model %s; %d violations, %d doubts", sum.Events, sum.Tenures, m, sum.Violations, sum.Doubts))
	if n := sum.Violations + sum.Doubts - len(sum.Findings); n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d more are not listed", n))
	}
	if truncated {
		r.Lacks = append(r.Lacks, "the history has no end line: its run was cut off; what it shows stands")
	}
	if sum.Tenures == 0 {
		r.Lacks = append(r.Lacks, "the history holds no tenure")
	}
	return c.finish(r)
}

// finish adds what this check did not look at.
func (c *checking) finish(r *result.Report) *result.Report {
	if c.limited {
		r.Notes = append(r.Notes, fmt.Sprintf("only events from %s on, before %s, were looked at", c.from, until(c)))
	}
	if c.outOfBudget {
		r.Lacks = append(r.Lacks, fmt.Sprintf("the check was given up after %s", c.timeout))
	}
	r.Conclude()
	return r
}

func until(c *checking) string {
	if c.to == 0 {
		return "the end"
	}
	return c.to.String()
}

// mostExplained bounds what --explain prints.
const mostExplained = 200

// explainSummary prints the order that makes a history legal, or what
// contradicts every order.
func (c *checking) explainSummary(h *history.History, sum *checker.Summary) {
	if len(sum.Findings) == 0 {
		c.print("The operations can have taken effect in this order:", checker.Linearization(&h.Header, c.want, h.Events))
		return
	}
	for _, f := range sum.Findings[:min(3, len(sum.Findings))] {
		c.print(fmt.Sprintf("%s/%s (%s):", f.Kind, f.Rule, f.Certainty), checker.Contradiction(f, &h.Header, h.Events))
	}
}

func (c *checking) print(head string, lines []string) {
	fmt.Fprintln(c.d.err, head)
	for _, l := range lines[:min(mostExplained, len(lines))] {
		fmt.Fprintln(c.d.err, l)
	}
	if n := len(lines) - mostExplained; n > 0 {
		fmt.Fprintf(c.d.err, "  … and %d more\n", n)
	}
}

// levels prints, case by case, what holds of the service, of the lease and of
// the resource, and the least that each finding rests on.
func (c *checking) levels(h *history.History) {
	ids, parts := contract.Split(h.Events)
	for _, id := range ids {
		v := checker.Judge(&h.Header, parts[id])
		name := "the history"
		if id != "" {
			name = "case " + id
		}
		var lines []string
		for _, l := range v.Levels() {
			lines = append(lines, fmt.Sprintf("  %-8s %-12s %s", l.Level, l.Outcome, l.Means))
		}
		c.print(name+":", lines)
		for _, f := range append(v.Findings, v.Doubts...) {
			c.print(fmt.Sprintf("  %s/%s (%s):", f.Kind, f.Rule, f.Certainty), checker.Contradiction(f, &h.Header, parts[id]))
		}
		if len(v.Findings)+len(v.Doubts)+len(v.Hazards) == 0 {
			c.print("  an order in which the operations can have taken effect:", checker.Linearization(&h.Header, checker.Model{}, parts[id]))
		}
	}
}
