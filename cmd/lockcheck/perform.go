package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/containers/docker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reports/result"
)

// run is one run under way.
type run struct {
	d        *deps
	f        runFlags
	t        target
	cases    []contract.Case
	only     func(*contract.Case) bool
	outputs  []output
	amend    func(*lockspec.Description)
	base     *result.Report // nil: none
	progress *progress
	folder   *result.Folder
	guard    *driver.Guard
	docker   docker.Docker
	up       string // where what was started for the run is; empty: r.t says it
	started  time.Time

	interrupted <-chan struct{}
	seals       seals
}

func (r *run) all(ctx context.Context) error {
	if r.f.lease == 0 {
		r.progress.Phase("measuring how long this machine stalls")
		r.f.lease = contract.ChooseLease(ctx)
	}
	if r.f.plan {
		return r.printPlan()
	}
	var err error
	if r.folder, err = result.NewFolder(r.f.runs, time.Now(), r.f.seed); err != nil {
		return exit(result.ExitUsage, "--runs: %w", err)
	}
	err = r.because(ctx, r.inFolder(ctx))
	if e := (*exitError)(nil); errors.As(err, &e) && e.err != nil {
		r.writeFailed(e)
	}
	return err
}

// because says why a run came to no verdict: what failed while it was being
// ended failed because of that.
func (r *run) because(ctx context.Context, err error) error {
	e := (*exitError)(nil)
	switch {
	case !errors.As(err, &e) || e.err == nil || ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return exit(result.ExitInconclusive, "--timeout %s was over before there was anything to judge (%w)", r.f.timeout, err)
	}
	return exit(result.ExitInterrupted, "interrupted before there was anything to judge (%w)", err)
}

// writeFailed writes the results of a run that came to none.
func (r *run) writeFailed(e *exitError) {
	report := &result.Report{Target: r.t.text, Command: r.again(), Class: lockspec.Class(r.f.class), Profile: lockspec.Profile(r.f.profile),
		Environment: result.ThisEnvironment(), Suite: contract.Suite, Checker: checker.Version, Tool: "lockcheck " + toolVersion(),
		Seed: r.f.seed, Started: r.started.UTC(), Duration: int64(time.Since(r.started)), Cases: []result.Case{}, Findings: []result.Finding{}}
	report.Fail(e.code, redact(e.Error()))
	if err := r.folder.WriteJSON("results.json", report); err != nil {
		fmt.Fprintln(r.d.err, "lockcheck: results.json:", err)
	}
}

// inFolder is the run once it has a folder.
func (r *run) inFolder(ctx context.Context) error {
	if err := r.writePlan(); err != nil {
		return exit(result.ExitInternal, "%w", err)
	}
	var err error
	r.guard, err = driver.StartGuard(nil)
	if err != nil && !errors.Is(err, lockspec.ErrUnsupported) {
		return exit(result.ExitInternal, "guard: %w", err)
	}
	defer r.guard.Close()
	defer r.docker.Close()
	h, closeHarness, err := r.harness(ctx)
	if err != nil {
		return err
	}
	defer closeHarness()
	// Whatever still runs a moment after an interrupt is ended: its calls then
	// answer unavailable, and the cases end.
	stay := context.AfterFunc(ctx, func() { time.Sleep(healFor); closeHarness() })
	defer stay()
	report, err := r.check(ctx, h)
	r.progress.Done()
	if err == nil && r.f.keep && stay() {
		defer r.awaitInterrupt()
	} else {
		closeHarness()
	}
	if err != nil {
		return err
	}
	return r.finish(report)
}

// awaitInterrupt keeps what the run started up, for a look by hand.
func (r *run) awaitInterrupt() {
	fmt.Fprintf(r.d.err, "kept up until interrupted: %s\n", redact(or(r.up, or(r.t.url, r.t.text))))
	<-r.interrupted
}

func or(word, otherwise string) string {
	if word == "" {
		return otherwise
	}
	return word
}

// healFor is how long an interrupted run may take to heal its faults and give
// back its locks before its nodes are ended.
const healFor = 500 * time.Millisecond

// harness starts what the target needs.
func (r *run) harness(ctx context.Context) (contract.Harness, func(), error) {
	if r.t.inside {
		return newInside(r.f.lease, r.t.offers), func() {}, nil
	}
	var closers []func()
	closed := make(chan struct{}, 1)
	closeAll := func() {
		select {
		case closed <- struct{}{}:
		default:
			return
		}
		for i := len(closers) - 1; i >= 0; i-- {
			closers[i]()
		}
	}
	at := &service{url: r.t.url}
	if r.t.prepare != nil {
		var err error
		if at, err = r.t.prepare(ctx, r); err != nil {
			return nil, nil, err
		}
		closers = append(closers, at.close)
	}
	p, err := contract.NewProcesses(ctx, contract.ProcessOptions{
		Node:  driver.Config{Command: r.t.command, URL: at.url, Endpoints: r.f.endpoint, Guard: r.guard},
		Lease: r.f.lease,
		Log: func(node string) io.Writer {
			w, err := r.log(node)
			if err != nil {
				return io.Discard
			}
			return w
		},
	})
	if err != nil {
		closeAll()
		return nil, nil, exit(result.ExitUnavailable, "target %s: %w", r.t.text, err)
	}
	if at.with != nil {
		h, end := at.with(p)
		closers = append(closers, func() { _ = end() })
		return h, closeAll, nil
	}
	closers = append(closers, func() { _ = p.Close() })
	return p, closeAll, nil
}

// log is the file that a child's stderr goes to.
func (r *run) log(name string) (io.Writer, error) {
	f, err := os.OpenFile(r.folder.Path("logs", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, exit(result.ExitInternal, "%w", err)
	}
	return f, nil
}

// check runs the cases with the run folder open.
func (r *run) check(ctx context.Context, h contract.Harness) (*result.Report, error) {
	history, err := os.Create(r.folder.Path("history.jsonl"))
	if err != nil {
		return nil, exit(result.ExitInternal, "%w", err)
	}
	defer history.Close()
	probes, err := os.Create(r.folder.Path("probes.jsonl"))
	if err != nil {
		return nil, exit(result.ExitInternal, "%w", err)
	}
	defer probes.Close()
	report, err := contract.Check(ctx, h, &contract.Options{
		Cases: r.cases, Only: r.only, Profile: lockspec.Profile(r.f.profile), Seed: r.f.seed, Lease: r.f.lease,
		Target: r.t.text, Command: r.again(), Tool: "lockcheck " + toolVersion(), History: history, Probes: probes,
		Progress: r.progress, Gate: r.d.gate, Amend: r.amend, Sealer: r.seals.add,
	})
	switch {
	case errors.Is(err, lockspec.ErrConfig):
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	case err != nil:
		return nil, exit(result.ExitInternal, "%w", err)
	}
	return report, nil
}

// again is the command that runs the same target again.
func (r *run) again() string {
	words := []string{"lockcheck", "run", quote(r.t.text)}
	for _, e := range r.f.endpoint {
		words = append(words, "--endpoint", quote(e))
	}
	words = append(words, "--lease", r.f.lease.String())
	if r.f.via != string(containers.Auto) {
		words = append(words, "--via", r.f.via)
	}
	if r.f.image != "" {
		words = append(words, "--image", quote(r.f.image))
	}
	if r.f.class != "" {
		words = append(words, "--class", r.f.class)
	}
	for _, b := range r.f.bounds {
		words = append(words, "--bound", quote(b))
	}
	if r.f.profile != "" {
		words = append(words, "--profile", r.f.profile)
	}
	return strings.Join(words, " ")
}

// quote makes a word one word for a shell.
func quote(word string) string {
	if strings.ContainsAny(word, " \t\n\"'`$&|;<>()*?[]#~\\{}") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// finish writes what is derived from the report and ends with its code.
func (r *run) finish(report *result.Report) error {
	sum, err := fileSum(r.folder.Path("history.jsonl"))
	if err != nil {
		return exit(result.ExitInternal, "%w", err)
	}
	report.History = sum
	if r.base != nil {
		report.Against(r.base, func(id string) bool { return !r.offers(id) })
	}
	if err := r.folder.WriteJSON("results.json", report); err != nil {
		return exit(result.ExitInternal, "%w", err)
	}
	if err := write(r.d, r.outputs, report, r.f.verbose); err != nil {
		return exit(result.ExitInternal, "%w", err)
	}
	fmt.Fprintf(r.d.err, "run folder: %s\n", r.folder.Path())
	if report.Exit != result.ExitOK {
		return &exitError{code: report.Exit}
	}
	return nil
}

// offers says whether the user let the case run. The probes are part of every
// run.
func (r *run) offers(id string) bool {
	if id == contract.ProbesID {
		return true
	}
	for i := range r.cases {
		if r.cases[i].ID == id {
			return r.only(&r.cases[i])
		}
	}
	return false
}
