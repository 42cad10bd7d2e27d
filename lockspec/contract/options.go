package contract

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
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
	Workers int              // cases at a time; 0: 4

	Target  string    // how the report names what is tested; redacted by the caller
	Tool    string    // and what tests it
	Command string    // that runs it again, without seed and case
	History io.Writer // where the history goes as it happens; nil: nowhere
	Probes  io.Writer // where the history of the probes goes; nil: nowhere

	Progress Progress      // told what happens; nil: nobody
	Gate     workload.Gate // of the fenced register; nil: the right one. For tests of the suite itself

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
	if d.Workers == 0 {
		d.Workers = 4
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

func (o *Options) validate() error {
	switch o.Profile {
	case "", lockspec.Advisory, lockspec.ExclusiveHolder, lockspec.FencedResource:
	default:
		return fmt.Errorf("%w: unknown profile %q", lockspec.ErrConfig, o.Profile)
	}
	if o.Lease < 0 {
		return fmt.Errorf("%w: lease %s is negative", lockspec.ErrConfig, o.Lease)
	}
	return nil
}
