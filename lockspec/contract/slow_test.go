package contract_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestSlowRenewals: a renewal that was asked for in time and came to the service
// when the lease was over accuses nobody; one that is refused at once does.
func TestSlowRenewals(t *testing.T) {
	for name, test := range map[string]struct {
		takes time.Duration
		want  result.Status
	}{"slow": {labLease, result.Inconclusive}, "refused": {0, result.Fail}} {
		t.Run(name, func(t *testing.T) {
			wrong := eventually(3, func() error {
				r := checkCase(t, newLab(t, fault{backend: on("E17", wrong{renew: func(ctx context.Context, _ reference.Backend, _ reference.Claim) error {
					time.Sleep(test.takes)
					return lockspec.ErrNotHeld
				}})}), "E17")
				c := caseOf(t, r, "E17")
				if c.Status == test.want {
					return nil
				}
				return decided(c.Status, fmt.Errorf("%s: %s", c.Status, c.Reason))
			})
			if wrong != nil {
				t.Error(wrong)
			}
		})
	}
}
