package contract_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestMissingBound: a case without a measure says which; its user may give it.
func TestMissingBound(t *testing.T) {
	silent := fault{claims: func(d *lockspec.Description) { d.Bounds.Takeover = 0 }}
	k := caseOf(t, checkCase(t, newLab(t, silent), "B06"), "B06")
	if k.Status != result.Unsupported || k.Reason != "no bound for takeover" {
		t.Errorf("%s: %s", k.Status, k.Reason)
	}
	r, err := contract.Check(t.Context(), newLab(t, silent), &contract.Options{Lease: labLease, Seed: 1,
		Only:  func(c *contract.Case) bool { return c.ID == "B06" },
		Amend: func(d *lockspec.Description) { d.Bounds.Takeover = 100 * time.Millisecond }})
	if err != nil {
		t.Fatal(err)
	}
	if k := caseOf(t, r, "B06"); !slices.Contains([]result.Status{result.Pass, result.Inconclusive}, k.Status) {
		t.Errorf("%s: %s", k.Status, k.Reason)
	}
}
