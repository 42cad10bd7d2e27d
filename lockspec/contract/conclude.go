package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reports/result"
)

// measure keeps the worst of what the histories show, with c.mu held.
func (c *check) measure(v *checker.Verdict) {
	worst := func(name string, d time.Duration) {
		c.report.Bounds[name] = max(c.report.Bounds[name], int64(d))
	}
	for _, o := range v.Measures.Overtaken() {
		worst("overlap_ns", o.Both)
	}
	for _, d := range v.Measures.Takeovers {
		worst("takeover_ns", d)
	}
	for _, d := range v.Measures.Losses {
		worst("loss_latency_ns", d)
	}
}

// conclude looks at the run as a whole: whether it saw enough to carry a
// verdict, and what a reader of it must know.
func (c *check) conclude(ctx context.Context) {
	r := c.report
	r.Duration = int64(time.Since(c.started))
	r.Environment.MaxStall = int64(c.sampler.Worst())
	step, why := c.sampler.ClockStep()
	if r.Environment.ClockStep = int64(step); step > 0 {
		r.Lacks = append(r.Lacks, why)
	}
	r.Interrupted = errors.Is(ctx.Err(), context.Canceled)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.Lacks = append(r.Lacks, "its time was over before every case had run")
	}
	if ctx.Err() == nil && slices.ContainsFunc(r.Cases, func(k result.Case) bool { return k.ID != ProbesID && k.Status.Ran() }) {
		c.weigh()
	}
	r.Conclude()
	var unproven []string
	for _, h := range c.desc.Hazards {
		if !slices.Contains(r.HazardsShown, h) {
			unproven = append(unproven, string(h))
		}
	}
	if len(unproven) > 0 {
		r.Notes = append(r.Notes, "declared, and shown by no case of this run: "+strings.Join(unproven, ", "))
	}
	r.Notes = append(r.Notes, fmt.Sprintf("lease %s; comparisons of leases need more than ε = %s", term(c.desc, c.lease), c.eps()))
}

func (c *check) eps() time.Duration {
	lease := term(c.desc, c.lease)
	return (2*time.Millisecond + lease/1000 + time.Duration(c.desc.Bounds.ClockRate*float64(lease))).Round(time.Microsecond)
}

// weigh: a run in which nobody met anybody, or in which an operation never
// succeeded, has shown nothing.
func (c *check) weigh() {
	r := c.report
	contended := 0
	ok := map[string]int{}
	for i := range r.Cases {
		k := &r.Cases[i]
		contended += k.Contended
		for op, outcomes := range k.Ops {
			ok[op] += outcomes["ok"]
		}
	}
	for _, op := range []string{"acquire", "release"} {
		if ok[op] == 0 {
			r.Lacks = append(r.Lacks, "no "+op+" was answered ok")
		}
	}
	if contended == 0 {
		r.Lacks = append(r.Lacks, "no acquisition met another")
	}
	c.lacksStale()
}

// lacksStale: profile fenced says that a resource turned a stale holder away.
// Whoever claims it wants that shown; where it was only taken as the default,
// a run without any hazard has no stale write to show.
func (c *check) lacksStale() {
	refused, hazards := 0, 0
	for i := range c.report.Cases {
		refused += c.report.Cases[i].StaleWrites.Refused
		hazards += len(c.report.Cases[i].Hazards)
	}
	if c.report.Profile == lockspec.FencedResource && refused == 0 && (hazards > 0 || c.o.Profile != "") {
		c.report.Lacks = append(c.report.Lacks, "profile fenced, and no stale write was tried after a seal and refused")
	}
}
