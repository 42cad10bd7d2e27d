package contract

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
	"github.com/lockcheck/lockcheck/reports/result"
)

// Check probes what the lock claims, runs the cases, judges what each of them
// recorded, and reports. Ending the context ends the run early: what ran is
// judged, the rest is not-run, and the report says that it was interrupted, or
// lacks the rest where the context's time was over.
//
// The error is for what kept the run from giving any report: a description
// that contradicts itself, options that make no sense, a history that cannot
// be written.
func Check(ctx context.Context, h Harness, opts *Options) (*result.Report, error) {
	c, err := newCheck(h, opts)
	if err != nil {
		return nil, err
	}
	c.chooseLease(ctx)
	if err := c.probe(ctx); err != nil {
		return nil, err
	}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	c.conclude(ctx)
	return c.report, nil
}

// check is one run.
type check struct {
	o       *Options
	h       Harness
	desc    lockspec.Description
	lease   time.Duration
	started time.Time
	report  *result.Report

	head    history.Header
	work    *workload.Run
	sampler *workload.Sampler
	pulse   *workload.Pulse // of a service that the harness runs itself; nil: nobody can tell
	log     eventLog
	judged  func(r *result.Case, events []history.Event) // told of each case; nil: nobody
	mu      sync.Mutex

	unproven []lockspec.Feature // claims that a probe could not decide
}

func newCheck(h Harness, opts *Options) (*check, error) {
	o := opts.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	desc := h.Describe()
	if o.Amend != nil {
		o.Amend(&desc)
	}
	if desc.Class == "" {
		desc.Class = lockspec.Leased
	}
	if err := desc.Validate(); err != nil {
		return nil, fmt.Errorf("what %s says of itself: %w", desc.Name, err)
	}
	c := &check{o: o, h: h, desc: desc, started: time.Now(), report: newReport(o, desc)}
	c.report.Notes = o.expired(c.started)
	return c, nil
}

func newReport(o *Options, desc lockspec.Description) *result.Report {
	return &result.Report{
		Target: o.Target, Command: o.Command, Class: desc.Class, Profile: o.Profile, Declared: desc.Hazards,
		Claims: map[lockspec.Feature]history.Claim{}, Bounds: map[string]int64{},
		Environment: result.ThisEnvironment(), Suite: Suite, Checker: checker.Version, Tool: o.Tool,
		Seed: o.Seed, Started: time.Now().UTC(), Cases: []result.Case{}, Findings: []result.Finding{},
	}
}

// Leases below this do not outlive what a busy machine does to a process.
const leastLease = 500 * time.Millisecond

// Above this a run would take minutes; a machine that stalls for so long makes
// cases inconclusive instead.
const mostLease = 3 * time.Second

// ChooseLease measures for a second how long this machine stalls, and gives a
// lease that is long against it, within reason.
func ChooseLease(ctx context.Context) time.Duration {
	worst := workload.Calibrate(ctx, time.Second)
	return min(mostLease, max(leastLease, 30*worst)).Round(time.Millisecond)
}

// chooseLease settles what the cases ask for, within what the lock accepts.
func (c *check) chooseLease(ctx context.Context) {
	c.lease = c.o.Lease
	if c.lease == 0 {
		c.o.Progress.Phase("measuring how long this machine stalls")
		c.lease = ChooseLease(ctx)
	}
	if b := c.desc.Bounds; b.LeaseMax > 0 {
		c.lease = min(c.lease, b.LeaseMax)
	}
}

// long says whether the lock grants no lease that is short enough for a case to
// take many of them.
func (c *check) long() bool { return long(term(c.desc, c.lease)) }

func long(lease time.Duration) bool { return lease > mostLease }

func (c *check) header() history.Header {
	return history.Header{Version: history.FormatVersion, Started: c.started.UTC(), Clock: "monotonic", BootID: bootID(), Seed: c.o.Seed,
		Target: c.o.Target, Class: c.desc.Class, Profile: c.report.Profile, Capacity: max(1, c.desc.Capacity),
		Hazards: c.desc.Hazards, Claims: c.report.Claims, Bounds: c.desc.Bounds, Eps: history.DefaultEps,
		Tool: c.o.Tool, Suite: Suite}
}

// run records and judges every case.
func (c *check) run(ctx context.Context) error {
	if err := c.begin(); err != nil {
		return err
	}
	results := make([]*result.Case, len(c.o.Cases))
	c.runAll(ctx, results, false)
	c.runAll(ctx, results, true)
	return c.end(results)
}

// recorder begins a history.
func (c *check) recorder(out io.Writer) (*history.Recorder, error) {
	o := history.Options{Out: out, Follow: c.log.add}
	if t, ok := c.h.(Timekeeper); ok {
		o.Now = t.Now
	}
	return history.NewRecorder(c.head, &o)
}

// begin starts the history of the run.
func (c *check) begin() error {
	c.head = c.header()
	c.log.clear()
	rec, err := c.recorder(c.o.History)
	if err != nil {
		return err
	}
	if c.o.Sealer != nil {
		c.o.Sealer(rec.Close)
	}
	c.work = &workload.Run{Recorder: rec, Gate: c.o.Gate}
	c.watch(rec)
	return nil
}

// end ends the history and reports what became of the cases.
func (c *check) end(results []*result.Case) error {
	c.unwatch()
	for _, r := range results {
		c.report.Cases = append(c.report.Cases, *r)
	}
	if err := c.work.Recorder.Close(); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// runAll runs the cases that are serial, or those that are not.
func (c *check) runAll(ctx context.Context, results []*result.Case, serial bool) {
	workers := 1
	if !serial {
		workers = c.workers()
	}
	slots := make(chan struct{}, workers)
	var all sync.WaitGroup
	for _, i := range c.order() {
		k := &c.o.Cases[i]
		if k.Serial != serial {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			results[i] = c.runCase(ctx, k)
		})
	}
	all.Wait()
}

// workers is how many cases run at a time, once the lease is known.
func (c *check) workers() int {
	switch {
	case c.o.Workers > 0:
		return c.o.Workers
	case c.long():
		return 20
	}
	return 8
}

// order is that in which cases begin: a long one that begins last is waited for
// by nothing but itself. Where leases are long, those that are about the end of
// one take longest by far.
func (c *check) order() []int {
	rank := func(k *Case) int {
		switch {
		case c.long() && k.Group == "renewal":
			return 0
		case k.Long:
			return 1
		}
		return 2
	}
	order := make([]int, len(c.o.Cases))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank(&c.o.Cases[a]) - rank(&c.o.Cases[b]) })
	return order
}

// runCase runs one case, if it applies, and judges it.
func (c *check) runCase(ctx context.Context, k *Case) *result.Case {
	r := &result.Case{ID: k.ID, Suite: k.suite(), Name: k.Name, Status: result.Pass}
	if status, why := c.applies(ctx, k); why != "" {
		r.Status, r.Reason = status, why
		if status == result.NotRun {
			return r // nothing that whoever filtered it would want to be told
		}
		if status != result.Inconclusive {
			c.o.Progress.End(k, r)
			return r
		}
	}
	c.o.Progress.Begin(k)
	start := time.Now()
	e := c.newEnv(ctx, k)
	c.log.open(k.ID)
	c.perform(ctx, e)
	r.Duration = int64(time.Since(start))
	c.settle(ctx, e)
	c.judge(r, e, &c.head)
	c.o.Progress.End(k, r)
	return r
}

func (k *Case) suite() string {
	if k.Suite == "" {
		return ContractSuite
	}
	return k.Suite
}

// applies says why a case is not run, if it is not.
func (c *check) applies(ctx context.Context, k *Case) (result.Status, string) {
	switch {
	case !c.o.Only(k):
		return result.NotRun, "filtered out"
	case ctx.Err() != nil:
		return result.NotRun, "interrupted before it began"
	}
	for _, f := range k.Needs {
		switch c.report.Claims[f] {
		case history.Proven:
		case history.False:
			return result.NotRun, fmt.Sprintf("the claim %s was found false", f)
		case history.Unproven:
			if slices.Contains(c.unproven, f) && c.o.skip(k.ID, c.started) == nil {
				return result.Inconclusive, fmt.Sprintf("the claim %s could not be proven", f)
			}
		default:
			return result.Unsupported, fmt.Sprintf("%s is not claimed", f)
		}
	}
	if get := bounds[k.Bound]; get != nil && get(c.desc.Bounds) == 0 {
		return result.Unsupported, "no bound for " + k.Bound
	}
	if _, ok := c.h.(NodeHost); k.Nodes > 0 && !ok {
		return result.Unsupported, "harness cannot run nodes as processes"
	}
	if s := c.o.skip(k.ID, c.started); s != nil {
		return result.Skipped, fmt.Sprintf("%s (until %s)", s.Reason, s.Until.Format(time.DateOnly))
	}
	return "", ""
}

func (c *check) newEnv(ctx context.Context, k *Case) *Env {
	return &Env{Case: k, Scene: c.work.NewScene(k.ID), Description: c.desc, Lease: c.lease,
		Rand: Rand(c.o.Seed, k.ID), ctx: ctx, harness: c.h, prefix: c.prefix(), seed: caseSeed(c.o.Seed, k.ID), stalled: c.stalled,
		began: c.work.Recorder.Now()}
}

// Rand is the source that a case is given under a seed of the run: what it
// draws first is the same in every run with that seed.
func Rand(seed int64, id string) *rand.Rand { return rand.New(rand.NewPCG(caseSeed(seed, id), 0)) }

func caseSeed(seed int64, id string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(id))
	return uint64(seed) ^ hash.Sum64()
}

// prefix sets this run's keys apart from everything else in the service.
func (c *check) prefix() string {
	return "lockcheck-" + strconv.FormatInt(c.started.UnixMilli(), 36) + "/"
}

// perform runs the case in a goroutine of its own, within its limit.
func (c *check) perform(ctx context.Context, e *Env) {
	limit := e.Case.Limit
	if limit == 0 {
		limit = 30 * time.Second
	}
	limit += 20 * (e.Term() - leastLease) // a case takes leases of time
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				e.Note(result.Error, fmt.Sprintf("panic in the case: %v", p))
			}
		}()
		e.Case.Run(ctx, e)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		select { // a case that heeds its context ends now; one that does not is left behind
		case <-done:
		case <-time.After(5 * time.Second):
			e.Note(result.Error, "the case did not end when its context did")
			return
		}
	}
	switch context.Cause(ctx) {
	case nil:
	case errLimit:
		e.endHung()
		e.Note(result.Error, fmt.Sprintf("timeout: the case was killed by its limit of %s", limit))
	default:
		e.Note(result.NotRun, interrupted)
	}
}

// interrupted is why a case is not-run that an interrupt cut short: it has
// shown neither that the promise is kept nor, unless its history does, that it
// is broken.
const interrupted = "interrupted"

// settle waits until everything the case caused is in the history.
func (c *check) settle(ctx context.Context, e *Env) {
	e.close()
	c.look(context.WithoutCancel(ctx))
	if w, ok := c.h.(Observer); ok {
		for _, err := range w.Broken() {
			e.blameTarget()
			e.Note(result.Error, err.Error())
		}
	}
	if err := c.work.Recorder.Sync(); err != nil {
		e.Note(result.Error, "history: "+err.Error())
	}
}
