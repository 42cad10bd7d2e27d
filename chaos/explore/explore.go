package explore

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker"
)

// Report is what a range of schedules showed.
type Report struct {
	Schedules int
	Repeated  int // schedules that were played twice
	Disturbed int // of them, those that the machine left no undisturbed pair of
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
	ended, stop := watch(o.Limit, stuck)
	defer stop()
	r := &Report{Outcomes: map[checker.Outcome]int{}, Cells: map[string]int{}, Doubts: map[string]int{}}
	began := time.Now()
	for n := range o.Schedules {
		seed := o.Seed + uint64(n)
		out := Run(t, h, seed, o)
		ended()
		if out.Err != nil {
			r.Stuck = fmt.Sprintf("seed %d: %v", seed, out.Err)
			break
		}
		r.add(out)
		if o.Repeat > 0 && !shuffled && seed%uint64(o.Repeat) == 0 {
			r.repeat(t, h, out, o)
			ended()
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

// repeat plays a schedule again: not a byte of its history may differ, unless
// the machine took the processor away for so long that the runtime preempted
// whoever was running. Then both are played again, and a pair that is disturbed
// each time is counted for what it is: it says nothing.
func (r *Report) repeat(t *testing.T, h *Harness, first *Outcome, o *Options) {
	r.Repeated++
	for range mostPairs {
		again := Run(t, h, first.Seed, o)
		one, two := first.Bytes(), again.Bytes()
		if bytes.Equal(one, two) {
			return
		}
		if !first.disturbed() && !again.disturbed() {
			r.alarm(Alarm{first.Seed, "not-repeated", differ(one, two)})
			return
		}
		first = Run(t, h, first.Seed, o)
	}
	r.Disturbed++
}

// mostPairs bounds how often a schedule is played for a pair that says something.
const mostPairs = 5

// disturbed says whether the runtime may have preempted a goroutine, which then
// goes on after others: it does so to who has run for 10 ms, and cannot tell
// running from waiting for a processor that another process has
// (runtime.retake). A schedule takes a tenth of that.
func (o *Outcome) disturbed() bool { return o.Took > slice }

var slice = 8 * time.Millisecond

func differ(one, two []byte) string {
	n := 0
	for n < min(len(one), len(two)) && one[n] == two[n] {
		n++
	}
	return fmt.Sprintf("the same seed gave another history, from line %d on", 1+bytes.Count(one[:n], []byte("\n")))
}

// Merge adds what another range of schedules showed.
func (r *Report) Merge(o *Report) {
	r.Schedules += o.Schedules
	r.Repeated += o.Repeated
	r.Disturbed += o.Disturbed
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
