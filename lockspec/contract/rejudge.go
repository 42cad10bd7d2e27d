package contract

import (
	"fmt"
	"slices"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reports/result"
)

// rejudged are the kinds of findings that a history alone shows.
var rejudged = []checker.Kind{checker.Overlap, checker.Ownership, checker.LossSignal, checker.Renewal, checker.Liveness, checker.Fencing}

// Rejudge judges a recorded history again, case by case as its run did. With
// the report of that run, what a history cannot show keeps its recorded
// status, and a verdict that differs from the recorded one is said so.
func Rejudge(h *history.History, recorded *result.Report) *result.Report {
	c := &check{desc: lockspec.Description{Bounds: h.Header.Bounds}, o: &Options{}, report: &result.Report{
		Target: h.Header.Target, Class: h.Header.Class, Profile: h.Header.Profile, Declared: h.Header.Hazards,
		Claims: h.Header.Claims, Bounds: map[string]int64{}, Environment: result.ThisEnvironment(),
		Suite: h.Header.Suite, Checker: checker.Version, Tool: h.Header.Tool, Seed: h.Header.Seed, Started: h.Header.Started,
		Cases: []result.Case{}, Findings: []result.Finding{},
	}}
	ids, parts := Split(h.Events)
	tenures := 0
	for _, id := range ids {
		v := judgeSafely(&h.Header, parts[id])
		tenures += v.Measures.Acquired
		c.addRejudged(id, v, recorded)
	}
	if recorded != nil {
		c.report.Duration, c.report.Environment, c.report.History = recorded.Duration, recorded.Environment, recorded.History
		c.report.Interrupted = recorded.Interrupted
		c.report.Command = recorded.Command
		c.report.Lacks = append(c.report.Lacks, recorded.Lacks...)
		c.keepRecorded(ids, recorded)
	} else if !slices.Equal(ids, []string{""}) {
		c.report.Notes = append(c.report.Notes, "a history tells what its events show; what the cases of its run saw themselves is in the run folder's results.json")
	}
	for i := range h.Events {
		if e := &h.Events[i]; e.Fault == "clock-step" || e.Fault == "suspend" && e.Origin == history.Found {
			c.report.Lacks = append(c.report.Lacks, e.Message+" while the run measured leases")
			break
		}
	}
	if h.Truncated {
		c.report.Lacks = append(c.report.Lacks, "the history has no end line: its run was cut off; what it shows stands")
	}
	if tenures == 0 {
		c.report.Lacks = append(c.report.Lacks, "the history holds no tenure")
	}
	if recorded == nil {
		c.lacksStale()
	}
	c.report.Lacks = unique(c.report.Lacks)
	c.report.Conclude()
	if recorded != nil {
		c.report.Notes = append(c.report.Notes, compare(c.report, recorded))
	}
	return c.report
}

func unique(words []string) []string {
	var out []string
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

func (c *check) addRejudged(id string, v *checker.Verdict, recorded *result.Report) {
	r := result.Case{ID: id, Suite: "check", Name: "the whole history", Status: result.Of(v.Outcome)}
	if old := find(recorded, id); old != nil {
		r.Suite, r.Name, r.Duration = old.Suite, old.Name, old.Duration
	} else if id != "" {
		r.Name = "case " + id + " of the history"
	}
	Show(&r, v)
	if len(v.Doubts) > 0 && r.Status == result.Inconclusive {
		r.Reason = v.Doubts[0].Certainty + ": " + v.Doubts[0].Message
	}
	if len(v.Findings) > 0 {
		r.Reason = v.Findings[0].Message
	}
	c.report.AddFindings(&r, v.Findings)
	c.report.AddFindings(&r, v.Doubts)
	c.measure(v)
	if old := find(recorded, id); old != nil {
		c.keepObserved(&r, old, recorded)
	}
	c.report.Cases = append(c.report.Cases, r)
}

// keepObserved: what the case itself found is not in the history, and neither
// is why it was inconclusive, skipped or an error. Its recorded status stands
// where it rests on that and the history has nothing worse to say.
func (c *check) keepObserved(r, old *result.Case, recorded *result.Report) {
	observed := 0
	for _, f := range recorded.Findings {
		if slices.Contains(old.Findings, f.ID) && f.Observed {
			c.report.Keep(r, f)
			observed++
		}
	}
	shown := old.Status == result.Fail || old.Status == result.Hazard // a history shows it, or shows that it is not so
	if result.Merge(r.Status, old.Status) != r.Status && (observed > 0 || !shown) {
		r.Status, r.Reason, r.Rejudged = old.Status, old.Reason, "not re-judged"
	}
}

// keepRecorded adds the cases that left no events.
func (c *check) keepRecorded(ids []string, recorded *result.Report) {
	for _, old := range recorded.Cases {
		if slices.Contains(ids, old.ID) {
			continue
		}
		kept := old
		kept.Rejudged, kept.Findings = "not re-judged", nil
		for _, f := range recorded.Findings {
			if slices.Contains(old.Findings, f.ID) {
				c.report.Keep(&kept, f)
			}
		}
		c.report.Cases = append(c.report.Cases, kept)
	}
}

func find(r *result.Report, id string) *result.Case {
	if r == nil {
		return nil
	}
	for i := range r.Cases {
		if r.Cases[i].ID == id {
			return &r.Cases[i]
		}
	}
	return nil
}

// compare says whether the two reports agree: in what a history shows, and in
// the verdict.
func compare(now, then *result.Report) string {
	a, b := fingerprints(now), fingerprints(then)
	switch {
	case !slices.Equal(a, b):
		return fmt.Sprintf("DIFFERS from the recorded verdict: findings %v now, %v then", a, b)
	case now.Verdict != then.Verdict:
		return fmt.Sprintf("DIFFERS from the recorded verdict: %s now, %s then", now.Verdict, then.Verdict)
	}
	return fmt.Sprintf("agrees with the recorded verdict (%s): %d findings that a history shows in both", then.Verdict, len(a))
}

func fingerprints(r *result.Report) []string {
	var out []string
	for _, f := range r.Findings {
		if slices.Contains(rejudged, f.Kind) && !f.Observed {
			out = append(out, f.Case+":"+string(f.Kind)+"/"+f.Rule)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
