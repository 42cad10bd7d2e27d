package contract

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reports/result"
)

// judge merges what the case found, what its history shows and what became of
// the run. What is found over and over is told once, with its number: a thousand
// keys that are lost in the same way are one fault. (The history has each.)
func (c *check) judge(r *result.Case, e *Env, head *history.Header) {
	events := c.log.close(e.Case.ID)
	v := judgeSafely(head, events)
	observed := r.Gather(c.unexplained(e, v, events))
	v.Findings, v.Doubts = r.Gather(v.Findings), r.Gather(v.Doubts)
	own, why := e.outcome()
	status := result.Of(v.Outcome)
	if e.ctx.Err() != nil && status != result.Fail {
		r.Status, status, own, why = result.NotRun, result.Pass, result.Pass, interrupted
		r.Reason = interrupted
	}
	if len(observed) > 0 {
		status = result.Fail
	}
	r.Status = result.Merge(r.Status, status, own)
	switch {
	case r.Status == own && why != "":
		r.Reason = why
	case r.Status == result.Inconclusive && len(v.Doubts) > 0:
		r.Reason = v.Doubts[0].Certainty + ": " + v.Doubts[0].Message
	case r.Status == result.Fail:
		r.Reason = append(slices.Clone(v.Findings), observed...)[0].Message
	}
	r.Blame = e.blame
	Show(r, v)
	if r.Suite == ContractSuite && r.Status == result.Pass {
		r.Story = nil // what a case did to keep a promise honest is of no interest where it was kept
	}
	r.Story = append(slices.Clone(e.story), r.Story...)
	if c.judged != nil {
		c.judged(r, events)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.AddFindings(r, v.Findings)
	c.report.AddObserved(r, observed)
	c.report.AddFindings(r, v.Doubts)
	c.measure(v)
}

// unexplained are the findings of the case itself, less those that may follow
// from a tenure that was lost while this machine stalled: they become doubts. A
// case takes it that what it holds is held; the checker does not. Tokens owe
// nothing to time.
func (c *check) unexplained(e *Env, v *checker.Verdict, events []history.Event) []checker.Finding {
	observed := e.Scene.Findings()
	if len(observed) == 0 || !slices.ContainsFunc(events, tellsLoss) {
		return observed
	}
	late := e.stalled(context.WithoutCancel(e.ctx), e.began)
	if late <= c.lease/4 {
		return observed
	}
	return slices.DeleteFunc(observed, func(f checker.Finding) bool {
		if f.Kind == checker.Fencing || f.Certainty == checker.Certain {
			return false // no time was needed, or all stalls were allowed for
		}
		if v.Outcome != checker.Failed {
			v.Outcome = checker.Inconclusive
		}
		f.Certainty = fmt.Sprintf("a tenure was lost, and this machine stalled for %s", late.Round(time.Millisecond))
		v.Doubts = append(v.Doubts, f)
		return true
	})
}

func tellsLoss(e history.Event) bool {
	return e.Op == history.Lost || e.Error == lockspec.Lost || e.Error == lockspec.NotHeld
}

// Show puts what a verdict shows into a case of a report, apart from its
// status and findings.
func Show(r *result.Case, v *checker.Verdict) {
	r.Ops = v.Measures.Ops
	r.Contended = v.Measures.Contended
	r.StaleWrites = result.StaleWrites{Tried: v.Measures.StaleTried, Refused: v.Measures.StaleDenied}
	r.Hazards = result.ShowHazards(v.Hazards)
	r.Story = v.Story()
	for _, f := range v.Faults {
		if f.Landed && !f.Found {
			r.Landed = append(r.Landed, f.ID)
		}
	}
}

// judgeSafely: a checker that crashes has not passed anything.
func judgeSafely(head *history.Header, events []history.Event) (v *checker.Verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = &checker.Verdict{Outcome: "crashed"}
			v.Doubts = []checker.Finding{{Kind: checker.Contract, Rule: "checker-crashed", Certainty: fmt.Sprintf("the checker crashed: %v", p)}}
		}
	}()
	return checker.Judge(head, events)
}
