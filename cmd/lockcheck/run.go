package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reports/result"
)

// runFlags are what the user asks of a run.
type runFlags struct {
	suites   []string
	cases    []string
	profile  string
	lease    time.Duration
	seed     int64
	timeout  time.Duration
	runs     string
	outputs  []string
	endpoint []string
	plan     bool
	verbose  bool
}

func newRun(d *deps) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [TARGET]",
		Short: "Run the contract and the chaos suite against a lock",
		Long:  "Run the contract and the chaos suite against a lock, and leave a run folder.\n\n" + targetHelp() + "\n" + exitHelp(),
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fromEnvironment(cmd.Flags(), d.getenv); err != nil {
				return err
			}
			return runTarget(cmd.Context(), d, f, strings.Join(args, ""))
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.suites, "suite", []string{contract.ContractSuite, contract.ChaosSuite}, "suites to run")
	flags.StringSliceVar(&f.cases, "case", nil, "only the cases with these IDs")
	flags.StringVar(&f.profile, "profile", "", "what is claimed of the lock: advisory, exclusive or fenced (default: fenced if fencing is proven, else advisory)")
	flags.DurationVar(&f.lease, "lease", 0, "lease to ask for (default: 500ms, raised on a machine that stalls)")
	flags.Int64Var(&f.seed, "seed", 0, "decides the schedule (default: drawn)")
	flags.DurationVar(&f.timeout, "timeout", 15*time.Minute, "the whole run is interrupted after this")
	flags.StringVar(&f.runs, "runs", "lockcheck-runs", "where run folders go")
	flags.StringArrayVar(&f.outputs, "output", nil, "FORMAT=PATH, - is standard output; formats: text, json (default: text=-)")
	flags.StringSliceVar(&f.endpoint, "endpoint", nil, "host:port that an exec: target talks to")
	flags.BoolVar(&f.plan, "plan", false, "print the fault schedule of the seed and stop")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "list every case")
	return cmd
}

func targetHelp() string {
	var b strings.Builder
	b.WriteString("Targets:\n")
	for _, s := range schemes() {
		fmt.Fprintf(&b, "  %-19s %s\n", s.form, s.means)
	}
	return b.String()
}

// fromEnvironment sets every flag that was not given from its twin
// LOCKCHECK_NAME.
func fromEnvironment(flags *pflag.FlagSet, getenv func(string) string) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "LOCKCHECK_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v := getenv(name); v != "" && !f.Changed && err == nil {
			if e := flags.Set(f.Name, v); e != nil {
				err = exit(result.ExitUsage, "%s=%s: %w", name, v, e)
			}
		}
	})
	return err
}

// selectCases checks the names that the user gave and says which cases run.
func (f *runFlags) selectCases() (all []contract.Case, only func(*contract.Case) bool, err error) {
	bySuite := map[string][]contract.Case{contract.ContractSuite: contract.Cases(), contract.ChaosSuite: chaos.Cases()}
	names := []string{contract.ContractSuite, contract.ChaosSuite}
	var ids []string
	for _, s := range names {
		if slices.Contains(f.suites, s) {
			all = append(all, bySuite[s]...)
		}
	}
	for _, s := range f.suites {
		if bySuite[s] == nil {
			return nil, nil, exit(result.ExitUsage, "unknown suite %q; %s", s, nearest(s, names))
		}
	}
	all = slices.DeleteFunc(all, func(c contract.Case) bool { return c.Level == contract.APILevel })
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	for _, id := range f.cases {
		if !slices.Contains(ids, id) {
			return nil, nil, exit(result.ExitUsage, "unknown case %q in suite %s; %s", id, strings.Join(f.suites, ", "), nearest(id, ids))
		}
	}
	return all, func(c *contract.Case) bool { return len(f.cases) == 0 || slices.Contains(f.cases, c.ID) }, nil
}

func (f *runFlags) validate() error {
	if f.profile != "" && !slices.Contains(lockspec.Profiles(), lockspec.Profile(f.profile)) {
		var names []string
		for _, p := range lockspec.Profiles() {
			names = append(names, string(p))
		}
		return exit(result.ExitUsage, "unknown profile %q; %s", f.profile, nearest(f.profile, names))
	}
	if f.lease < 0 || f.timeout <= 0 {
		return exit(result.ExitUsage, "--lease and --timeout must be positive")
	}
	if f.lease > 0 && f.lease < 100*time.Millisecond {
		return exit(result.ExitUsage, "--lease %s is shorter than a process can be relied on to run; the least is 100ms", f.lease)
	}
	return nil
}

// runTarget is the whole of a run, from the command line to the exit code.
func runTarget(parent context.Context, d *deps, f runFlags, text string) error {
	cases, only, err := f.selectCases()
	if err == nil {
		err = f.validate()
	}
	if err != nil {
		return err
	}
	outputs, err := parseOutputs(f.outputs)
	if err != nil {
		return err
	}
	t, err := parseTarget(text)
	if err != nil {
		return err
	}
	if f.seed == 0 {
		f.seed = rand.Int64N(1<<31-1) + 1
	}
	if parent == nil {
		parent = context.Background()
	}
	ctx, hard, stop := d.signals(parent)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	defer context.AfterFunc(hard, func() { os.Exit(int(result.ExitInterrupted)) })()
	r := &run{d: d, f: f, t: t, cases: cases, only: only, outputs: outputs, progress: newProgress(d)}
	err = r.all(ctx)
	if e := (*exitError)(nil); errors.As(err, &e) && e.err != nil && ctx.Err() != nil {
		// What failed while the run was being ended failed because of that.
		return exit(result.ExitInterrupted, "interrupted before there was anything to judge (%w)", err)
	}
	return err
}

// run is one run under way.
type run struct {
	d        *deps
	f        runFlags
	t        target
	cases    []contract.Case
	only     func(*contract.Case) bool
	outputs  []output
	progress *progress
	folder   *result.Folder
	guard    *driver.Guard
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
	if err := r.writePlan(); err != nil {
		return exit(result.ExitInternal, "%w", err)
	}
	r.guard, err = driver.StartGuard(nil)
	if err != nil && !errors.Is(err, lockspec.ErrUnsupported) {
		return exit(result.ExitInternal, "guard: %w", err)
	}
	defer r.guard.Close()
	h, closeHarness, err := r.harness(ctx)
	if err != nil {
		return err
	}
	defer closeHarness()
	// Whatever still runs a moment after an interrupt is ended: its calls then
	// answer unavailable, and the cases end.
	defer context.AfterFunc(ctx, func() { time.Sleep(healFor); closeHarness() })()
	report, err := r.check(ctx, h)
	closeHarness()
	r.progress.Done()
	if err != nil {
		return err
	}
	return r.finish(report)
}

// healFor is how long an interrupted run may take to heal its faults and give
// back its locks before its nodes are ended.
const healFor = 500 * time.Millisecond

// harness starts what the target needs.
func (r *run) harness(ctx context.Context) (contract.Harness, func(), error) {
	if r.t.inside {
		return newInside(r.f.lease), func() {}, nil
	}
	var closers []func()
	var admin string
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
	if r.t.served {
		log, err := r.log("server")
		if err != nil {
			return nil, nil, err
		}
		s, err := startServer(ctx, r.guard, log)
		if err != nil {
			return nil, nil, exit(result.ExitInternal, "%w", err)
		}
		closers = append(closers, s.close)
		r.t.at(s.addr, r.f.lease)
		admin = s.admin
	} else if err := r.t.reach(ctx); err != nil {
		return nil, nil, err
	}
	p, err := contract.NewProcesses(ctx, contract.ProcessOptions{
		Node:  driver.Config{Command: r.t.command, URL: r.t.url, Endpoints: r.f.endpoint, Guard: r.guard},
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
	if r.t.served {
		h := newEmbedded(p, admin)
		closers = append(closers, func() { _ = h.Close() })
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
		Progress: r.progress, Gate: r.d.gate,
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
