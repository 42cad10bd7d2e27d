package checker

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Version is the version of the rules: verdicts compare only within one.
const Version = "1"

// Outcome is what a history, or one case of it, says of the lock. Merged, only
// the worse one stands.
type Outcome string

// The outcomes, from the mildest on.
const (
	Pass         Outcome = "pass"
	Hazardous    Outcome = "hazard"       // a declared hazard was shown and contained
	Inconclusive Outcome = "inconclusive" // the evidence does not carry a verdict
	Failed       Outcome = "fail"
)

// Kind is the kind of a finding.
type Kind string

// The finding kinds.
const (
	Overlap    Kind = "overlap"
	Ownership  Kind = "ownership"
	LossSignal Kind = "loss-signal"
	Renewal    Kind = "renewal"
	Liveness   Kind = "liveness"
	Fencing    Kind = "fencing"
	Contract   Kind = "contract"
	Residue    Kind = "residue"
	Efficiency Kind = "efficiency"
)

// Level says what a finding is about: the service's promise, the lease, or the
// resource that the lock protects. One history can fail one and pass another.
type Level string

// The levels.
const (
	Service  Level = "service"
	Lease    Level = "lease"
	Resource Level = "resource"
)

// Finding is one thing that is wrong, with its evidence.
type Finding struct {
	Kind      Kind
	Rule      string // which rule was broken, a stable word
	Level     Level
	Key       string
	Tenures   []string
	Events    []int64 // indices
	Faults    []string
	Overlap   time.Duration
	Certainty string // "certain", or why it is a doubt only
	exact     bool   // it rests on no lease
	Message   string
}

// Certain is the certainty of a finding that fails a case.
const Certain = "certain"

// Evidence is one part of the proof that a hazard was contained.
type Evidence struct {
	Part   string // a, b, c or d
	Holds  string // "true", "false", "n/a"
	Events []int64
	Text   string
}

// Hazard is a declared failure that a run showed, for one pair of tenures.
type Hazard struct {
	Name     lockspec.Hazard
	Former   string // tenure that was overtaken
	Latter   string // tenure that overtook it
	Fault    string // id of the fault
	Overlap  Span   // both believed
	Evidence []Evidence
}

// Contained says whether every part of the proof holds.
func (h *Hazard) Contained() bool {
	return !slices.ContainsFunc(h.Evidence, func(e Evidence) bool { return e.Holds == "false" })
}

// Both is a stretch in which two tenures were believed at once.
type Both struct {
	Former, Latter string
	Span           Span
}

// Measures are what a history shows in numbers, whatever the verdict.
type Measures struct {
	Ops         map[string]map[string]int // operation to outcome word to count
	Acquired    int
	Contended   int             // acquisitions that met another's tenure or attempt
	Overlaps    []Both          // two believed at once
	Takeovers   []time.Duration // from a kill to the next grant of the key
	Losses      []time.Duration // from the end of the paper, or the resume, to the loss signal; negative: before it
	LostUpdates []LostUpdate    // of the open register
	FencedHarm  int             // lost updates of the fenced register: must be 0
	StaleTried  int             // writes with a token below the seal that were tried on the fenced register
	StaleDenied int             // and refused
}

// LostUpdate is a write that was accepted although another had been accepted
// since the value it was based on: two orders got one invoice number.
type LostUpdate struct {
	Tenure, Over string // who wrote, and whose write it ignored
	Number       int64  // the version both wrote on top of
	Event, Other int64
}

// Verdict is what was found in one history or one case.
type Verdict struct {
	Outcome  Outcome
	Findings []Finding // each fails the case
	Doubts   []Finding // each makes it inconclusive
	Hazards  []Hazard
	Measures Measures
	Tenures  []*Tenure // by the return of their acquisition
	Faults   []*Fault
}

// Judge decides one history, or the events of one case of it. The events must
// be well-formed (history.Validator) and in the order of their index; they are
// not changed. It is a pure function: the same history gives the same verdict.
func Judge(h *history.Header, events []history.Event) *Verdict {
	r := collect(h, events)
	v := &Verdict{Outcome: Pass, Tenures: r.tenures, Faults: r.faults}
	v.Measures.Acquired = len(r.tenures)
	v.Measures.Ops = countOps(events)
	v.Measures.Contended = r.contended()
	res := r.judgeRegisters(v) // first: a fault of the resource explains an overlap that is not contained
	r.judgeTokens(v)
	r.judgeOverlaps(v, res)
	r.judgePermits(v, res)
	r.judgeChains(v)
	r.judgeOwnership(v)
	r.judgeLosses(v)
	r.judgeRenewals(v)
	r.judgeTakeover(v)
	r.judgeBusy(v)
	judgeDeaths(v, events)
	r.measureLosses(v)
	r.wantSeal(v)
	r.voidByClock(v)
	v.conclude()
	return v
}

func (v *Verdict) conclude() {
	switch {
	case len(v.Findings) > 0:
		v.Outcome = Failed
	case len(v.Doubts) > 0:
		v.Outcome = Inconclusive
	case len(v.Hazards) > 0:
		v.Outcome = Hazardous
	}
	order := []Kind{Fencing, Overlap}
	slices.SortStableFunc(v.Findings, func(a, b Finding) int {
		return cmp.Compare(rank(order, a.Kind), rank(order, b.Kind))
	})
}

func rank(order []Kind, k Kind) int {
	if i := slices.Index(order, k); i >= 0 {
		return i
	}
	return len(order)
}

// find adds a finding, or a doubt where its certainty is not certain.
func (v *Verdict) find(f Finding) {
	if f.Certainty == "" || f.Certainty == Certain {
		f.Certainty = Certain
		v.Findings = append(v.Findings, f)
		return
	}
	v.Doubts = append(v.Doubts, f)
}

// contended counts the acquisitions that met another: an attempt that was
// answered busy or timeout, or that was open while another held.
func (r *record) contended() int {
	n := 0
	for _, a := range r.attempts {
		if a.outcome == lockspec.Busy || a.outcome == lockspec.Timeout {
			n++
		}
	}
	return n
}

func countOps(events []history.Event) map[string]map[string]int {
	ops := map[string]map[string]int{}
	for i := range events {
		e := &events[i]
		if !e.Returns() {
			continue
		}
		word := string(e.Error)
		if e.Type == history.OK {
			word = string(lockspec.OK)
		}
		if ops[string(e.Op)] == nil {
			ops[string(e.Op)] = map[string]int{}
		}
		ops[string(e.Op)][word]++
	}
	return ops
}

// eps is ε for a lease of the length: what is closer proves nothing.
func (r *record) eps(lease time.Duration) time.Duration {
	rate := 0.001 + r.header.Bounds.ClockRate
	return r.header.Eps + time.Duration(rate*float64(lease))
}

// holdFor is the lease that bounds how long a fault may be at work on a
// tenure: the granted one, for a session the declared takeover bound.
func (r *record) holdFor(t *Tenure) time.Duration {
	if t.Session {
		return r.header.Bounds.Takeover
	}
	return t.Lease
}
