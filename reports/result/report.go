package result

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Schema names the format of results.json.
const Schema = "lockcheck.results/1"

// Report is all that a run found. Every writer is a pure function of it.
type Report struct {
	Schema  string `json:"schema"`
	Verdict Status `json:"verdict"` // pass, fail, inconclusive or error
	Clean   bool   `json:"clean"`   // no hazard was shown
	Partial bool   `json:"partial"` // a claimed case was skipped
	Exit    Exit   `json:"exit_code"`

	Target       string                             `json:"target"`
	Command      string                             `json:"command,omitempty"` // that runs it again, without seed and case
	Class        lockspec.Class                     `json:"class"`
	Profile      lockspec.Profile                   `json:"profile"`
	Claims       map[lockspec.Feature]history.Claim `json:"claims"`
	Declared     []lockspec.Hazard                  `json:"hazards_declared"`
	HazardsShown []lockspec.Hazard                  `json:"hazards_shown"`
	Bounds       map[string]int64                   `json:"bounds"` // measured, ns

	Environment Environment `json:"environment"`
	Suite       string      `json:"suite_version"`
	Checker     string      `json:"checker_version"`
	Tool        string      `json:"tool_version"`
	Seed        int64       `json:"seed"`
	Started     time.Time   `json:"started"`
	Duration    int64       `json:"duration_ns"`
	History     string      `json:"history_sha256"`
	Interrupted bool        `json:"interrupted"`
	Lacks       []string    `json:"lacks,omitempty"` // evidence that the run as a whole did not bring; makes it inconclusive
	Gate        []string    `json:"gate,omitempty"`  // where it falls short of a baseline
	Notes       []string    `json:"notes,omitempty"` // what a reader of the verdict must know

	Summary  map[string]int `json:"summary"` // status, with _ for -, to count
	Cases    []Case         `json:"cases"`
	Findings []Finding      `json:"findings"`
}

// Environment is the machine that a run ran on.
type Environment struct {
	Cores     int    `json:"cores"`
	MaxStall  int64  `json:"max_stall_ns"`
	ClockStep int64  `json:"clock_step_ns"`
	OS        string `json:"os"`
	Go        string `json:"go"`
}

// ThisEnvironment describes this machine; what was measured is added by the run.
func ThisEnvironment() Environment {
	return Environment{Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
}

// Blame says whose fault an error is; it decides the exit code.
type Blame string

// The blames; an error without one is our own.
const (
	BlameOurs   Blame = ""
	BlameTarget Blame = "target" // the target or its driver is not usable
)

// Case is what became of one case.
type Case struct {
	ID          string                    `json:"id"`
	Suite       string                    `json:"suite"`
	Name        string                    `json:"name"`
	Status      Status                    `json:"status"`
	Reason      string                    `json:"reason,omitempty"`
	Blame       Blame                     `json:"blame,omitempty"`
	Rejudged    string                    `json:"rejudged,omitempty"` // "not re-judged" where a check of the folder kept the recorded status
	Duration    int64                     `json:"duration_ns"`
	Ops         map[string]map[string]int `json:"ops,omitempty"`
	Contended   int                       `json:"contended"`
	Landed      []string                  `json:"faults_landed,omitempty"`
	StaleWrites StaleWrites               `json:"stale_writes"`
	Hazards     []HazardShown             `json:"hazards,omitempty"`
	Findings    []string                  `json:"findings,omitempty"`

	// Story tells in plain words what happened, for the reports.
	Story []string `json:"story,omitempty"`
}

// StaleWrites counts writes to the fenced register with a token below its seal.
type StaleWrites struct {
	Tried   int `json:"tried"`
	Refused int `json:"refused"`
}

// HazardShown is a declared hazard that a case showed, with the proof that it
// was contained.
type HazardShown struct {
	Name      lockspec.Hazard  `json:"name"`
	Pair      [2]string        `json:"pair"`
	Overlap   int64            `json:"overlap_ns"`
	Contained map[string]Holds `json:"contained"` // by part
	Evidence  []Evidence       `json:"evidence"`
}

// Evidence is one part of that proof.
type Evidence struct {
	Part   string  `json:"part"`
	Events []int64 `json:"events"`
	Text   string  `json:"text"`
}

// Finding is a checker's or a case's finding, numbered for the report.
type Finding struct {
	ID          string        `json:"id"`
	Fingerprint string        `json:"fingerprint"` // the same in every run that shows the same thing
	Kind        checker.Kind  `json:"kind"`
	Rule        string        `json:"rule"`
	Level       checker.Level `json:"level"`
	Case        string        `json:"case"`
	Key         string        `json:"key,omitempty"`
	Tenures     []string      `json:"tenures,omitempty"`
	Events      []int64       `json:"events,omitempty"`
	Faults      []string      `json:"faults,omitempty"`
	Overlap     int64         `json:"overlap_ns,omitempty"`
	Certainty   string        `json:"certainty"`
	Message     string        `json:"message"`
	Observed    bool          `json:"observed,omitempty"` // the case saw it; its history alone does not show it
	Repro       string        `json:"repro,omitempty"`
}

// AddFindings numbers a case's findings, adds them to the report and names
// them in the case. Doubts go in too: an inconclusive case shows why.
func (r *Report) AddFindings(c *Case, findings []checker.Finding) { r.addFindings(c, findings, false) }

// AddObserved does the same with findings of the case itself.
func (r *Report) AddObserved(c *Case, findings []checker.Finding) { r.addFindings(c, findings, true) }

// Keep adds a finding of an earlier report, under a number of this one.
func (r *Report) Keep(c *Case, f Finding) {
	f.ID = fmt.Sprintf("F%d", len(r.Findings)+1)
	r.Findings = append(r.Findings, f)
	c.Findings = append(c.Findings, f.ID)
}

// Gather tells what a case found over and over only once, by its first finding
// and evidence, with the number of those that have the same fingerprint.
func (c *Case) Gather(findings []checker.Finding) []checker.Finding {
	var kinds []checker.Finding
	first, more := map[string]int{}, map[string]int{}
	for _, f := range findings {
		print := fingerprint(c.ID, f)
		if _, known := first[print]; known {
			more[print]++
			continue
		}
		first[print] = len(kinds)
		kinds = append(kinds, f)
	}
	for print, n := range more {
		kinds[first[print]].Message += fmt.Sprintf(" (and %d more like it)", n)
	}
	return kinds
}

func (r *Report) addFindings(c *Case, findings []checker.Finding, observed bool) {
	for _, f := range findings {
		id := fmt.Sprintf("F%d", len(r.Findings)+1)
		r.Findings = append(r.Findings, Finding{
			ID: id, Fingerprint: fingerprint(c.ID, f), Kind: f.Kind, Rule: f.Rule, Level: f.Level, Case: c.ID,
			Key: f.Key, Tenures: f.Tenures, Events: f.Events, Faults: f.Faults, Overlap: int64(f.Overlap),
			Certainty: certainty(f), Message: f.Message, Observed: observed,
			Repro: r.again(c),
		})
		c.Findings = append(c.Findings, id)
	}
}

// again is the command that shows a case's finding again. The probes are part
// of every run and have no ID to ask for.
func (r *Report) again(c *Case) string {
	command := r.Command
	if command == "" {
		command = "lockcheck run " + r.Target
	}
	command += fmt.Sprintf(" --seed %d", r.Seed)
	if c.Suite != ProbesSuite {
		command += " --case " + c.ID
	}
	return command
}

// ProbesSuite is the suite of the probes of the claims, which every run does.
const ProbesSuite = "probes"

func certainty(f checker.Finding) string {
	if f.Certainty == "" {
		return checker.Certain
	}
	return f.Certainty
}

func fingerprint(id string, f checker.Finding) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{id, string(f.Kind), f.Rule, string(f.Level)}, "\x00")))
	return hex.EncodeToString(sum[:6])
}

// ShowHazards turns a checker's hazards into the report's.
func ShowHazards(hazards []checker.Hazard) []HazardShown {
	var shown []HazardShown
	for _, h := range hazards {
		s := HazardShown{Name: h.Name, Pair: [2]string{h.Former, h.Latter}, Overlap: int64(h.Overlap.Length()), Contained: map[string]Holds{}}
		for _, e := range h.Evidence {
			s.Contained[e.Part] = Holds(e.Holds)
			s.Evidence = append(s.Evidence, Evidence{e.Part, append([]int64{}, e.Events...), e.Text})
		}
		shown = append(shown, s)
	}
	return shown
}

// key is the status as a key of the summary.
func (s Status) key() string { return strings.ReplaceAll(string(s), "-", "_") }

// Count is how many cases ended with the status.
func (r *Report) Count(s Status) int { return r.Summary[s.key()] }

// Conclude counts the cases and sets verdict and exit code. A run whose cases
// neither failed nor left a doubt is a pass, with or without hazards.
func (r *Report) Conclude() {
	r.Schema = Schema
	r.Summary = map[string]int{}
	for _, row := range statuses {
		r.Summary[row.Status.key()] = 0
	}
	shown := map[lockspec.Hazard]bool{}
	r.HazardsShown = []lockspec.Hazard{}
	for i := range r.Cases {
		r.Summary[r.Cases[i].Status.key()]++
		for _, h := range r.Cases[i].Hazards {
			if !shown[h.Name] {
				shown[h.Name] = true
				r.HazardsShown = append(r.HazardsShown, h.Name)
			}
		}
	}
	r.Partial = r.Summary[Skipped.key()] > 0
	r.Clean = len(r.HazardsShown) == 0
	r.Exit = r.ExitCode()
	switch r.worst() { // a gate says nothing of the lock
	case ExitOK:
		r.Verdict = Pass
	case ExitViolation:
		r.Verdict = Fail
	case ExitInternal, ExitUnavailable:
		r.Verdict = Error
	default:
		r.Verdict = Inconclusive
	}
}
