package lockcheck_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// later are cases of the contract whose tests need what is not here yet:
// telemetry.
var later = []string{"I01", "I02", "I03", "I04", "I05"}

// TestAPICases: each promise of the reference engine's Go API, or of our own
// registers, is a test named after it; no target is asked for it.
func TestAPICases(t *testing.T) {
	tested := testsNamedAfterCases(t, "reference", "lockspec/workload", "reference/backends/postgres")
	listed := map[string]bool{}
	for _, c := range contract.Cases() {
		if c.Level != contract.APILevel {
			continue
		}
		listed[c.ID] = true
		if c.Run != nil {
			t.Errorf("%s is an api case and runs against targets", c.ID)
		}
		if slices.Contains(tested, c.ID) == slices.Contains(later, c.ID) {
			t.Errorf("%s: tested %v, listed as later %v", c.ID, slices.Contains(tested, c.ID), slices.Contains(later, c.ID))
		}
	}
	if len(listed) < 30 {
		t.Errorf("only %d api cases are listed", len(listed))
	}
}

// testsNamedAfterCases finds functions whose name begins with Test, an ID and
// an underscore.
func testsNamedAfterCases(t *testing.T, rooms ...string) []string {
	t.Helper()
	name := regexp.MustCompile(`(?m)^func Test([A-J][0-9]{2})_`)
	var ids []string
	for _, room := range rooms {
		files, err := filepath.Glob(filepath.Join(room, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range name.FindAllSubmatch(text, -1) {
				ids = append(ids, string(m[1]))
			}
		}
	}
	return ids
}
