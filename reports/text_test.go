package reports

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reports/result"
)

var update = flag.Bool("update", false, "write the golden files")

func report() *result.Report {
	r := &result.Report{
		Target: "embedded", Class: lockspec.Leased, Profile: lockspec.FencedResource, Seed: 7,
		Declared: []lockspec.Hazard{lockspec.Pause}, Duration: int64(5300 * time.Millisecond),
		Bounds: map[string]int64{"takeover_ns": int64(374 * time.Millisecond), "overlap_ns": int64(629 * time.Millisecond)},
		Notes:  []string{"lease 500ms; comparisons of leases need more than ε = 2.5ms"},
		Cases: []result.Case{
			{ID: "A01", Name: "a free key grants a live lease", Status: result.Pass, Duration: int64(7 * time.Millisecond)},
			{ID: "A02", Name: "a held key is busy", Status: result.NotRun, Reason: "filtered out"},
			{ID: "B04", Name: "a late release never frees the new owner's lock", Status: result.Fail, Reason: "it did", Findings: []string{"F1"}},
			{ID: "D07", Name: "waiters are served in order", Status: result.Unsupported, Reason: "fifo is not claimed"},
			{ID: "X02", Name: "holder stopped past its lease", Status: result.Hazard, Landed: []string{"X02-f1-1"},
				Story: []string{"pause of n1 at 1.783s; it lasted 1.2203s"},
				Hazards: []result.HazardShown{
					{Name: lockspec.Pause, Pair: [2]string{"t1", "t2"}, Contained: map[string]result.Holds{"a": "true", "d": "n/a"},
						Evidence: []result.Evidence{{Part: "a", Text: "it began"}, {Part: "d", Text: "t2 never wrote"}}},
					{Name: lockspec.Pause, Pair: [2]string{"t1", "t3"}, Contained: map[string]result.Holds{"a": "true", "d": "true"},
						Evidence: []result.Evidence{{Part: "a", Text: "it began"}, {Part: "d", Events: []int64{9, 12}, Text: "1 stale write was refused"}}},
				}},
		},
		Findings: []result.Finding{{ID: "F1", Kind: "ownership", Rule: "late-release-freed-successor", Case: "B04", Certainty: "certain",
			Message: "the late release of t1 freed the lock of t2", Events: []int64{14, 18}, Repro: "lockcheck run embedded --seed 7 --case B04"}},
	}
	r.Conclude()
	return r
}

// TestText holds the report that people read against one that was looked at.
func TestText(t *testing.T) {
	for _, test := range []struct {
		name string
		o    *TextOptions
	}{
		{"plain", nil}, {"verbose", &TextOptions{Verbose: true}}, {"color", &TextOptions{Color: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b strings.Builder
			if err := Text(&b, report(), test.o); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", test.name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("%s is\n%s\nwant\n%s", path, b.String(), want)
			}
			if test.name != "color" && strings.Contains(b.String(), "\x1b") {
				t.Error("colour where none was asked for")
			}
		})
	}
}

// TestTextOfImported: what an imported history does not have is not said.
func TestTextOfImported(t *testing.T) {
	r := &result.Report{Target: "a.edn", Class: lockspec.Memory,
		Cases:    []result.Case{{Name: "the whole history, as mutex", Status: result.Fail, Findings: []string{"F1"}}},
		Findings: []result.Finding{{ID: "F1", Kind: "overlap", Rule: "certain", Certainty: "certain", Message: "two held"}}}
	r.Conclude()
	var b strings.Builder
	if err := Text(&b, r, nil); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"profile", "certain in"} {
		if strings.Contains(b.String(), wrong) {
			t.Errorf("%q is said:\n%s", wrong, b.String())
		}
	}
}
