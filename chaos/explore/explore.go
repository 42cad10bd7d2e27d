package explore

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker"
)

// Report is what a range of schedules showed.
type Report struct {
	Schedules int
	Repeated  int // schedules that were played twice
	Events    int64
	Virtual   time.Duration
	Outcomes  map[checker.Outcome]int
	Cells     map[string]int // faults that landed, by the text of their cell
	Shapes    []uint64       // of the histories, without their times; not each distinct
	Alarms    []Alarm        // the first ones
	AlarmsN   int
	Doubts    map[string]int // what made schedules inconclusive
	Stuck     string         // why the exploration ended early
	CPU, Took time.Duration  // of the processes, together; Took of the longest
}

// Alarm is a schedule that was judged a failure of the lock, or that did not
// repeat itself.
type Alarm struct {
	Seed uint64
	Rule string
	Text string
}

// mostAlarms bounds what a report tells of.
const mostAlarms = 20

// String is how a cell is named in a report.
func (c Cell) String() string { return c.Fault + " | " + string(c.Phase) }

// Test explores the lock as a test: every violation is an error, with the seed
// that shows it again. It must not run in parallel with other tests: it takes
// the whole process to one processor, because a bubble repeats itself on one
// only.
func Test(t *testing.T, h *Harness, o *Options) *Report {
	t.Helper()
	r := explore(t, h, o, func(dump string) { panic(dump) })
	for _, a := range r.Alarms {
		t.Errorf("seed %d: %s: %s", a.Seed, a.Rule, a.Text)
	}
	if r.Stuck != "" {
		t.Error(r.Stuck)
	}
	return r
}

// explore plays the schedules. stuck is called from a goroutine of its own
// where one does not end, with the goroutines that keep it.
func explore(t *testing.T, h *Harness, o *Options, stuck func(dump string)) *Report {
	o = o.withDefaults()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // see run.collect
	ballast()
	defer deepen()()
	var played atomic.Int64
	defer watch(o.Limit, &played, stuck)()
	r := &Report{Outcomes: map[checker.Outcome]int{}, Cells: map[string]int{}, Doubts: map[string]int{}}
	began := time.Now()
	for n := range o.Schedules {
		seed := o.Seed + uint64(n)
		out := Run(t, h, seed, o)
		played.Add(1)
		if out.Err != nil {
			r.Stuck = fmt.Sprintf("seed %d: %v", seed, out.Err)
			break
		}
		r.add(out)
		if o.Repeat > 0 && !shuffled && seed%uint64(o.Repeat) == 0 {
			r.repeat(t, h, out, o)
			played.Add(1)
		}
	}
	r.Took = time.Since(began)
	return r
}

func (r *Report) add(out *Outcome) {
	r.Schedules++
	r.Events += int64(len(out.Events))
	r.Virtual += out.Virtual
	r.Shapes = append(r.Shapes, out.Shape)
	outcome := out.Verdict.Outcome
	for _, c := range out.Struck {
		r.Cells[c.String()]++
	}
	for _, f := range out.Verdict.Doubts {
		r.Doubts[string(f.Kind)+"/"+f.Rule+": "+f.Certainty]++
	}
	for _, f := range out.violations() {
		outcome = checker.Failed
		r.alarm(Alarm{out.Seed, string(f.Kind) + "/" + f.Rule, f.Message})
	}
	r.Outcomes[outcome]++
}

// violations are what both judges found. The stream knows nothing of causes: of
// what it finds, the overlaps stand whatever struck, and nothing else: a copy of
// an acquisition may be granted what its successor has released.
func (o *Outcome) violations() []checker.Finding {
	all := append([]checker.Finding(nil), o.Verdict.Findings...)
	for _, f := range o.Stream.Findings {
		if f.Certainty == checker.Certain && f.Kind == checker.Overlap {
			f.Rule = "stream-" + f.Rule
			all = append(all, f)
		}
	}
	return all
}

func (r *Report) alarm(a Alarm) {
	if r.AlarmsN++; len(r.Alarms) < mostAlarms {
		r.Alarms = append(r.Alarms, a)
	}
}

// repeat plays a schedule again: not a byte of its history may differ.
func (r *Report) repeat(t *testing.T, h *Harness, first *Outcome, o *Options) {
	one := first.Bytes()
	again := Run(t, h, first.Seed, o)
	r.Repeated++
	if two := again.Bytes(); !bytes.Equal(one, two) {
		n := 0
		for n < min(len(one), len(two)) && one[n] == two[n] {
			n++
		}
		r.alarm(Alarm{first.Seed, "not-repeated", fmt.Sprintf("the same seed gave another history, from line %d on", 1+bytes.Count(one[:n], []byte("\n")))})
	}
}

// Merge adds what another range of schedules showed.
func (r *Report) Merge(o *Report) {
	r.Schedules += o.Schedules
	r.Repeated += o.Repeated
	r.Events += o.Events
	r.Virtual += o.Virtual
	r.AlarmsN += o.AlarmsN
	r.CPU += o.CPU
	r.Took = max(r.Took, o.Took)
	r.Shapes = append(r.Shapes, o.Shapes...)
	r.Alarms = append(r.Alarms, o.Alarms[:min(len(o.Alarms), mostAlarms-min(mostAlarms, len(r.Alarms)))]...)
	if r.Stuck == "" {
		r.Stuck = o.Stuck
	}
	r.Outcomes = sum(r.Outcomes, o.Outcomes)
	r.Cells = sum(r.Cells, o.Cells)
	r.Doubts = sum(r.Doubts, o.Doubts)
}

func sum[K comparable](a, b map[K]int) map[K]int {
	if a == nil {
		a = map[K]int{}
	}
	for k, n := range b {
		a[k] += n
	}
	return a
}

// Distinct is how many histories differ in more than their times.
func (r *Report) Distinct() int {
	seen := make(map[uint64]struct{}, len(r.Shapes))
	for _, s := range r.Shapes {
		seen[s] = struct{}{}
	}
	return len(seen)
}
