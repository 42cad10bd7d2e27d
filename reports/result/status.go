// Package result holds what a run found: the [Status] of its cases, the
// [Report] that every writer reads, the exit code, and the run [Folder].
package result

import (
	"slices"

	"github.com/lockcheck/lockcheck/checker"
)

// Status is what became of a case.
type Status string

// The statuses. statuses holds their order and meaning.
const (
	Pass         Status = "pass"
	Hazard       Status = "hazard"
	Unsupported  Status = "unsupported"
	NotRun       Status = "not-run"
	Skipped      Status = "skipped"
	Inconclusive Status = "inconclusive"
	Error        Status = "error"
	Fail         Status = "fail"
)

// StatusRow is one line of the table of statuses.
type StatusRow struct {
	Status Status
	Means  string
}

// statuses is ordered: merged, only the later one stands. Severity only rises.
var statuses = []StatusRow{
	{Pass, "the case ran and the lock kept its promise"},
	{Hazard, "a declared hazard was shown, and contained where fencing is claimed"},
	{Unsupported, "the lock does not claim the feature, or this harness or machine cannot do it"},
	{NotRun, "filtered out, or what it depends on was found false"},
	{Skipped, "claimed, but suppressed by the user with a reason"},
	{Inconclusive, "the evidence does not carry a verdict"},
	{Error, "the harness, a fault or the driver failed, not the lock"},
	{Fail, "the lock broke a promise"},
}

// Statuses is the table of statuses, mildest first.
func Statuses() []StatusRow { return slices.Clone(statuses) }

func (s Status) rank() int {
	return slices.IndexFunc(statuses, func(r StatusRow) bool { return r.Status == s })
}

// Merge is the worst of the statuses; Pass of none. A word that is no status
// counts as Error, so that a bug can never lower a verdict.
func Merge(all ...Status) Status {
	worst := Pass
	for _, s := range all {
		if s.rank() < 0 {
			s = Error
		}
		if s.rank() > worst.rank() {
			worst = s
		}
	}
	return worst
}

// Ran says whether a case of this status gives any evidence.
func (s Status) Ran() bool {
	return s == Pass || s == Hazard || s == Inconclusive || s == Error || s == Fail
}

// Of is the status that a checker's outcome gives a case.
func Of(o checker.Outcome) Status {
	switch o {
	case checker.Pass:
		return Pass
	case checker.Hazardous:
		return Hazard
	case checker.Inconclusive:
		return Inconclusive
	case checker.Failed:
		return Fail
	}
	return Error
}
