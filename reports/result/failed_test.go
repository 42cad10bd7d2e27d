package result

import (
	"encoding/json"
	"testing"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

func TestHolds(t *testing.T) {
	all := map[string]Holds{"a": "true", "b": "false", "d": "n/a"}
	const want = `{"a":true,"b":false,"d":"n/a"}`
	data, err := json.Marshal(all)
	if err != nil || string(data) != want {
		t.Errorf("%s %v, want %s", data, err, want)
	}
	var back map[string]Holds
	if err := json.Unmarshal([]byte(`{"a":true,"b":"false","d":"n/a"}`), &back); err != nil || back["a"] != "true" || back["b"] != "false" || back["d"] != "n/a" {
		t.Errorf("%v %v", back, err)
	}
	if json.Unmarshal([]byte(`{"a":3}`), &back) == nil {
		t.Error("a number was taken")
	}
}

func TestFailedReport(t *testing.T) {
	for code, verdict := range map[Exit]Status{ExitUnavailable: Error, ExitInternal: Error, ExitUsage: Error, ExitInterrupted: Inconclusive, ExitInconclusive: Inconclusive} {
		var r Report
		r.Fail(code, "nobody there")
		if r.Exit != code || r.Verdict != verdict || r.Interrupted != (code == ExitInterrupted) || r.Schema != Schema || r.Notes[0] != "nobody there" {
			t.Errorf("%d: %+v", code, r)
		}
	}
}

// TestAgainst: what was verified once must not be left out unnoticed.
func TestAgainst(t *testing.T) {
	base := &Report{Cases: []Case{{ID: "A", Status: Pass}, {ID: "B", Status: Hazard}, {ID: "C", Status: Unsupported}, {ID: "D", Status: Pass}},
		Claims: map[lockspec.Feature]history.Claim{"fencing": history.Proven, "wait": history.Unproven}}
	proven := map[lockspec.Feature]history.Claim{"fencing": history.Proven}
	all := []Case{{ID: "A", Status: Pass}, {ID: "B", Status: Pass}, {ID: "D", Status: Pass}}
	with := func(s Status) []Case { return append([]Case{{ID: "D", Status: s}}, all[:2]...) }
	for _, test := range []struct {
		name    string
		now     Report
		code    Exit
		verdict Status
	}{
		{"the same", Report{Cases: all, Claims: proven}, ExitOK, Pass},
		{"gone", Report{Cases: all[:2], Claims: proven}, ExitGate, Pass},
		{"no longer supported", Report{Cases: with(Unsupported), Claims: proven}, ExitGate, Pass},
		{"skipped", Report{Cases: with(Skipped), Claims: proven}, ExitGate, Pass},
		{"not run", Report{Cases: with(NotRun), Claims: proven}, ExitGate, Pass},
		{"interrupted", Report{Cases: with(NotRun), Claims: proven, Interrupted: true}, ExitInterrupted, Inconclusive},
		{"undecided", Report{Cases: with(Inconclusive), Claims: proven}, ExitInconclusive, Inconclusive},
		{"failed, which is worse than a gate", Report{Cases: append(with(Fail)[:2:2], Case{ID: "B", Status: Skipped}), Claims: proven}, ExitViolation, Fail},
		{"no longer claimed", Report{Cases: all}, ExitGate, Pass},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := test.now
			r.Against(base, func(id string) bool { return false })
			if r.Exit != test.code || r.Verdict != test.verdict {
				t.Errorf("%d %s, want %d %s; %q", r.Exit, r.Verdict, test.code, test.verdict, r.Gate)
			}
		})
	}
	r := Report{Cases: all[:1], Claims: proven}
	if r.Against(base, func(id string) bool { return id != "A" }); r.Exit != ExitOK {
		t.Errorf("what was filtered out is missed: %q", r.Gate)
	}
}
