package contract_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// red is a deliberate fault, and the finding that its case must come to. Each
// fault touches the keys of its case only, so that the probes of the claims
// find nothing and the case stands alone.
type red struct {
	id, fault string
	want      string // kind/rule
	make      func(l *lab, id string) fault
	harness   func(t testing.TB, l *lab) contract.Harness // nil: the lab
}

// reds has at least one row for every case of the groups A, B, C, D and G.
func reds() []red {
	return slices.Concat(redAcquire(), redRelease(), redHandle(), redWaiting(), redKeys())
}

// TestEachCaseSeenRed: with its fault each case fails, for the right reason,
// and nothing else does. A machine that stalls may leave one undecided; then it
// is tried again.
func TestEachCaseSeenRed(t *testing.T) {
	for _, row := range reds() {
		t.Run(row.id+" "+row.fault, func(t *testing.T) {
			if row.harness == nil {
				t.Parallel() // processes want the machine to themselves: what they lose to a stall, they give back
			}
			if wrong := eventually(3, func() error { return row.seen(t) }); wrong != nil {
				t.Error(wrong)
			}
		})
	}
}

// seen says what is missing: the finding, the case's status, or that nothing
// else was found.
func (row red) seen(t *testing.T) error {
	l := newLab(t, fault{})
	if row.make != nil {
		l.fault = row.make(l, row.id)
	}
	var h contract.Harness = l
	if row.harness != nil {
		h = row.harness(t, l)
	}
	r := checkCase(t, h, row.id)
	found := false
	var wrong []string
	for _, f := range r.Findings {
		text := fmt.Sprintf("%s %s/%s", f.Case, f.Kind, f.Rule)
		if strings.HasPrefix(text, row.id+" "+row.want) {
			found = true
			if len(f.Events) == 0 {
				wrong = append(wrong, text+" names no events")
			}
		}
		if f.Case != row.id {
			wrong = append(wrong, "also "+text+": "+f.Message)
		}
	}
	if !found {
		wrong = append(wrong, "no finding "+row.want)
	}
	c := caseOf(t, r, row.id)
	if c.Status != result.Fail {
		wrong = append(wrong, fmt.Sprintf("it is %s: %s", c.Status, c.Reason))
	}
	if len(wrong) > 0 {
		return decided(c.Status, errors.New(strings.Join(wrong, "; ")))
	}
	return nil
}

// TestReds: every case of these groups that is not of the API has its fault.
func TestReds(t *testing.T) {
	for _, k := range contract.Cases() {
		if strings.Contains("ABCDG", k.ID[:1]) && k.Level != contract.APILevel &&
			!slices.ContainsFunc(reds(), func(r red) bool { return r.id == k.ID }) {
			t.Errorf("case %s was never seen red", k.ID)
		}
	}
}
