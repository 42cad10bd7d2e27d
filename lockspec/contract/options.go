package contract

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
	"github.com/lockcheck/lockcheck/reports/result"
)

// Options say how to run cases. The zero value, and nil, run the whole
// contract.
type Options struct {
	Cases   []Case           // default: Cases()
	Only    func(*Case) bool // cases that it refuses are not-run; default: all run
	Profile lockspec.Profile // default: fenced if fencing is proven, else advisory
	Seed    int64            // 0: drawn, and always reported
	Lease   time.Duration    // to ask for; 0: 500 ms, raised to 30 × the worst gap of a calibration
	Workers int              // cases at a time; 0: 8, for cases mostly wait, or 20 where leases are long
	Skips   []Skip           // cases that are known to fail

	AllowInconclusive bool // Test logs what is inconclusive, where it would fail the test

	Target  string    // how the report names what is tested; redacted by the caller
	Tool    string    // and what tests it
	Command string    // that runs it again, without seed and case
	History io.Writer // where the history goes as it happens; nil: nowhere
	Probes  io.Writer // where the history of the probes goes; nil: nowhere

	Progress Progress      // told what happens; nil: nobody
	Gate     workload.Gate // of the fenced register; nil: the right one. For tests of the suite itself

	// Amend corrects what the lock says of itself by what its user says; nil: it
	// is taken by its word.
	Amend func(*lockspec.Description)

	// Sealer is given, when the history begins, what ends it at once: for whoever
	// cannot wait until the run has ended in order; nil: nobody.
	Sealer func(seal func() error)

	_ struct{}
}

// Skip suppresses a case for a while. It needs a reason and an end, and makes
// the report partial where the lock claims what the case is about. After Until
// the case runs again.
type Skip struct {
	Case   string // ID
	Reason string
	Until  time.Time

	_ struct{}
}

// Progress is told what a run does, as it does it. Its methods may be called
// from several goroutines.
type Progress interface {
	Phase(text string)           // what happens now
	Begin(c *Case)               // a case starts
	End(c *Case, r *result.Case) // a case has its status
	Note(text string)            // something a reader should know
}

type silent struct{}

func (silent) Phase(string)            {}
func (silent) Begin(*Case)             {}
func (silent) End(*Case, *result.Case) {}
func (silent) Note(string)             {}

func (o *Options) withDefaults() *Options {
	d := Options{}
	if o != nil {
		d = *o
	}
	if d.Cases == nil {
		d.Cases = Cases()
	}
	// Promises of a Go API are tried where that API is; here they are listed.
	d.Cases = slices.DeleteFunc(slices.Clone(d.Cases), func(k Case) bool { return k.Level == APILevel })
	if d.Only == nil {
		d.Only = func(*Case) bool { return true }
	}
	if d.Seed == 0 {
		d.Seed = rand.Int64N(1<<31-1) + 1
	}
	if d.Progress == nil {
		d.Progress = silent{}
	}
	if d.History == nil {
		d.History = io.Discard
	}
	if d.Probes == nil {
		d.Probes = io.Discard
	}
	return &d
}

// validate lists everything that is wrong, in one error that matches ErrConfig.
func (o *Options) validate() error {
	var wrong []string
	if o.Profile != "" && !slices.Contains(lockspec.Profiles(), o.Profile) {
		wrong = append(wrong, fmt.Sprintf("unknown profile %q", o.Profile))
	}
	if o.Lease < 0 {
		wrong = append(wrong, fmt.Sprintf("lease %s is negative", o.Lease))
	}
	for _, s := range o.Skips {
		wrong = append(wrong, s.problems(o.Cases)...)
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", lockspec.ErrConfig, strings.Join(wrong, "; "))
}

func (s *Skip) problems(cases []Case) (wrong []string) {
	if !slices.ContainsFunc(cases, func(k Case) bool { return k.ID == s.Case }) {
		wrong = append(wrong, fmt.Sprintf("skip of %q: there is no such case", s.Case))
	}
	if strings.TrimSpace(s.Reason) == "" {
		wrong = append(wrong, fmt.Sprintf("skip of %s: it has no reason", s.Case))
	}
	if s.Until.IsZero() {
		wrong = append(wrong, fmt.Sprintf("skip of %s: it has no end", s.Case))
	}
	return wrong
}

// skip is what suppresses the case at the moment, if something does.
func (o *Options) skip(id string, now time.Time) *Skip {
	for i := range o.Skips {
		if s := &o.Skips[i]; s.Case == id && now.Before(s.Until) {
			return s
		}
	}
	return nil
}

// expired tells of the skips that suppress nothing any more.
func (o *Options) expired(now time.Time) (notes []string) {
	for _, s := range o.Skips {
		if !now.Before(s.Until) {
			notes = append(notes, fmt.Sprintf("the skip of %s (%s) ended on %s: the case runs again", s.Case, s.Reason, s.Until.Format(time.DateOnly)))
		}
	}
	return notes
}
