package main

import (
	"encoding/json"
	"testing"

	"github.com/lockcheck/lockcheck/reports/result"
)

// TestOffers runs the cases that a plain lock lacks the features for.
func TestOffers(t *testing.T) {
	for target, want := range map[string]map[string]result.Status{
		"memory://":                   {"J03": result.Unsupported, "J04": result.Unsupported, "J05": result.Unsupported, "J07": result.Unsupported},
		"memory://?shared&reentrant=": {"J03": result.Pass, "J04": result.Pass, "J05": result.Unsupported, "J07": result.Pass},
		"memory://?permits=3":         {"J03": result.Unsupported, "J04": result.Unsupported, "J05": result.Pass, "J07": result.Unsupported},
	} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			c := &cli{}
			args := []string{"run", target, "--output", "json=-"}
			for id := range want {
				args = append(args, "--case", id)
			}
			c.run(t, args...)
			var r result.Report
			if err := json.Unmarshal([]byte(c.out), &r); err != nil {
				t.Fatalf("%v\n%s%s", err, c.out, c.err)
			}
			for _, got := range r.Cases {
				if w, ok := want[got.ID]; ok && got.Status != w {
					t.Errorf("%s is %s: %s; want %s", got.ID, got.Status, got.Reason, w)
				}
			}
		})
	}
}
