package simulated_test

import (
	"testing"

	"github.com/lockcheck/lockcheck/chaos/explore"
	"github.com/lockcheck/lockcheck/reference/simulated"
)

// TestEngine: on every simulated service, the engine gives no alarm, and every
// schedule that is played twice repeats itself.
func TestEngine(t *testing.T) {
	for _, target := range simulated.Targets() {
		t.Run(target.Name, func(t *testing.T) {
			r := explore.Test(t, &target.Harness, &explore.Options{Schedules: 60, Repeat: 4})
			if r.Schedules != 60 || r.Repeated%15 != 0 || r.Distinct() < 50 {
				t.Errorf("%d schedules, %d repeated, %d distinct", r.Schedules, r.Repeated, r.Distinct())
			}
		})
	}
}
