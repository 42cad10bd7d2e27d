package contract_test

import (
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestReferenceKeepsRenewalFencingErrorsLimits: the reference engine, in this
// process, breaks none of the promises of these groups.
func TestReferenceKeepsRenewalFencingErrorsLimits(t *testing.T) {
	r, err := contract.Check(t.Context(), newLab(t, fault{}), &contract.Options{Lease: labLease, Seed: 1,
		Only: func(c *contract.Case) bool { return strings.Contains("EFHI", c.ID[:1]) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cases {
		switch c.Status {
		case result.Pass, result.NotRun:
		case result.Unsupported:
			t.Logf("%s: %s", c.ID, c.Reason)
		default:
			t.Errorf("%s %s: %s: %s", c.ID, c.Name, c.Status, c.Reason)
		}
	}
	if r.Summary[result.Pass] == 0 {
		t.Error("nothing passed")
	}
}
