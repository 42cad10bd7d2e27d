package result

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockcheck/lockcheck/checker"
)

func anyStatus() *rapid.Generator[Status] {
	return rapid.Custom(func(t *rapid.T) Status {
		return rapid.SampledFrom(statuses).Draw(t, "row").Status
	})
}

// TestMerge: severity only rises, in any order of merging, and a word that is
// no status never lowers a verdict.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(anyStatus()).Draw(t, "statuses")
		whole := Merge(all...)
		for _, s := range all {
			if whole.rank() < s.rank() {
				t.Fatalf("%v merged to %s", all, whole)
			}
		}
		n := rapid.IntRange(0, len(all)).Draw(t, "cut")
		if parts := Merge(Merge(all[n:]...), Merge(all[:n]...)); parts != whole {
			t.Fatalf("%s by parts, %s whole", parts, whole)
		}
	})
	if got := Merge(Pass, "crashed"); got != Error {
		t.Errorf("an unknown word merged to %s", got)
	}
	if got := Of("crashed"); got != Error {
		t.Errorf("a crashed checker is %s", got)
	}
}

// TestExitCodes: the table of design, one row a situation.
func TestExitCodes(t *testing.T) {
	one := func(s Status) []Case { return []Case{{Status: Pass}, {Status: s}} }
	blamed := one(Error)
	blamed[1].Blame = BlameTarget
	for _, test := range []struct {
		name    string
		report  Report
		code    Exit
		verdict Status
	}{
		{"all pass", Report{Cases: one(Pass)}, 0, Pass},
		{"hazard", Report{Cases: one(Hazard)}, 0, Pass},
		{"unsupported", Report{Cases: one(Unsupported)}, 0, Pass},
		{"fail", Report{Cases: one(Fail)}, 1, Fail},
		{"inconclusive", Report{Cases: one(Inconclusive)}, 2, Inconclusive},
		{"our error", Report{Cases: one(Error)}, 70, Error},
		{"the driver's error", Report{Cases: blamed}, 69, Error},
		{"nothing ran", Report{Cases: []Case{{Status: NotRun}, {Status: Unsupported}}}, 2, Inconclusive},
		{"no case", Report{}, 2, Inconclusive},
		{"evidence lacks", Report{Cases: one(Pass), Lacks: []string{"no contention"}}, 2, Inconclusive},
		{"interrupted", Report{Cases: one(NotRun), Interrupted: true}, 130, Inconclusive},
		{"interrupted before anything ran", Report{Interrupted: true}, 130, Inconclusive},
		{"violation, then interrupted", Report{Cases: one(Fail), Interrupted: true}, 1, Fail},
		{"violation and an error", Report{Cases: append(one(Fail), blamed...)}, 1, Fail},
		{"error and inconclusive", Report{Cases: append(one(Inconclusive), blamed...)}, 69, Error},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.report
			r.Conclude()
			if r.Exit != test.code || r.Verdict != test.verdict {
				t.Errorf("%d %s, want %d %s", r.Exit, r.Verdict, test.code, test.verdict)
			}
		})
	}
}

// TestWorstExit: the table's order is the order of severity, whatever comes
// first.
func TestWorstExit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		codes := rapid.SliceOf(rapid.SampledFrom(exits)).Draw(t, "codes")
		var all []Exit
		for _, row := range codes {
			all = append(all, row.Code)
		}
		worst := WorstExit(all...)
		for _, row := range exits {
			if row.Code == worst {
				break
			}
			for _, c := range all {
				if c == row.Code {
					t.Fatalf("%v gave %d", all, worst)
				}
			}
		}
	})
}

// TestFindings: a doubt is told with why it is one, and a fingerprint is the
// same in every run that shows the same thing.
func TestFindings(t *testing.T) {
	r := &Report{Target: "embedded", Seed: 7}
	c := &Case{ID: "A10"}
	f := checker.Finding{Kind: checker.Overlap, Rule: "entitled", Level: checker.Service, Tenures: []string{"t1", "t2"}}
	r.AddFindings(c, []checker.Finding{f})
	f.Tenures, f.Certainty = []string{"t8", "t9"}, "shorter than ε"
	r.AddObserved(c, []checker.Finding{f})
	if len(c.Findings) != 2 || c.Findings[1] != "F2" || r.Findings[0].Fingerprint != r.Findings[1].Fingerprint {
		t.Errorf("%+v", r.Findings)
	}
	if r.Findings[0].Certainty != checker.Certain || r.Findings[1].Certainty != "shorter than ε" || r.Findings[0].Observed || !r.Findings[1].Observed {
		t.Errorf("%+v", r.Findings)
	}
	if r.Findings[0].Repro != "lockcheck run embedded --seed 7 --case A10" {
		t.Error(r.Findings[0].Repro)
	}
}

// TestFolder: two runs of one second and seed do not share a folder, latest is
// the last, and results of another schema are refused by name.
func TestFolder(t *testing.T) {
	root := t.TempDir()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	first, err := NewFolder(root, at, 7)
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewFolder(root, at, 7)
	if err != nil {
		t.Fatal(err)
	}
	if first.Path() == second.Path() {
		t.Error("two runs share a folder")
	}
	if link, err := os.Readlink(filepath.Join(root, "latest")); err != nil || link != filepath.Base(second.Path()) {
		t.Errorf("latest is %s: %v", link, err)
	}
	if _, err := second.ReadReport(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a report that is not there: %v", err)
	}
	r := &Report{Cases: []Case{{ID: "A01", Status: Pass}}}
	r.Conclude()
	if err := second.WriteJSON("results.json", r); err != nil {
		t.Fatal(err)
	}
	if back, err := second.ReadReport(); err != nil || back.Cases[0].ID != "A01" {
		t.Errorf("%+v: %v", back, err)
	}
	r.Schema = "lockcheck.results/9"
	if err := second.WriteJSON("results.json", r); err != nil {
		t.Fatal(err)
	}
	if _, err := second.ReadReport(); err == nil {
		t.Error("a report of another schema was read")
	}
	if _, err := NewFolder(filepath.Join(second.Path(), "results.json"), at, 7); err == nil {
		t.Error("a folder below a file")
	}
}

// TestGather: what has the same fingerprint is told once and counted, in the
// order in which it was first found.
func TestGather(t *testing.T) {
	c := &Case{ID: "I06"}
	lost := checker.Finding{Kind: checker.Contract, Rule: "outcome", Message: "lost"}
	late := checker.Finding{Kind: checker.Liveness, Rule: "late", Message: "late"}
	got := c.Gather([]checker.Finding{lost, late, lost, lost})
	if len(got) != 2 || got[0].Message != "lost (and 2 more like it)" || got[1].Message != "late" {
		t.Errorf("%+v", got)
	}
	if c.Gather(nil) != nil {
		t.Error("findings of nothing")
	}
}
