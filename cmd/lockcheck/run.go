package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/containers/docker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
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
	class    string
	bounds   []string
	via      string
	image    string
	baseline string
	config   string
	plan     bool
	keep     bool
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
			text, err := fromFile(cmd.Flags(), f.config)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				text = args[0]
			}
			return runTarget(cmd.Context(), d, f, text)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.suites, "suite", []string{contract.ContractSuite, contract.ChaosSuite}, "suites to run")
	flags.StringSliceVar(&f.cases, "case", nil, "only the cases with these IDs")
	flags.StringVar(&f.profile, "profile", "", "what is claimed of the lock: advisory, exclusive or fenced (default: fenced if fencing is proven, else advisory)")
	flags.DurationVar(&f.lease, "lease", 0, "lease to ask for (default: 500ms, raised on a machine that stalls)")
	flags.Int64Var(&f.seed, "seed", 0, "decides the schedule (default: drawn)")
	flags.DurationVar(&f.timeout, "timeout", 15*time.Minute, "the whole run is ended after this, and what ran is judged")
	flags.StringVar(&f.runs, "runs", "lockcheck-runs", "where run folders go")
	flags.StringArrayVar(&f.outputs, "output", nil, "FORMAT=PATH, - is standard output; formats: text, json (default: text=-)")
	flags.StringSliceVar(&f.endpoint, "endpoint", nil, "host:port that an exec: target talks to")
	flags.StringVar(&f.class, "class", "", "what kind of lock it is, where the target does not say or is wrong: "+strings.Join(classes, ", "))
	flags.StringArrayVar(&f.bounds, "bound", nil, "NAME=VALUE of what the lock promises, as takeover=2s, where the target does not say or is wrong")
	flags.StringVar(&f.via, "via", string(containers.Auto), "how an up: target is started: local (a program of this machine), docker, or auto (the first of these that there is)")
	flags.StringVar(&f.image, "image", "", "the image that an up: target is started from in Docker (default: "+docker.Built+" where it is there, else the usual one)")
	flags.StringVar(&f.baseline, "baseline", "", "an earlier results.json: what was verified there and is not tried now fails the run")
	flags.StringVar(&f.config, "config", "", "a YAML file of settings, named as the flags are, and target; flags and variables win over it")
	flags.BoolVar(&f.keep, "keep", false, "when all is judged, keep the server and the nodes up until interrupted")
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
	if !slices.Contains(containers.Vias(), containers.Via(f.via)) {
		return exit(result.ExitUsage, "--via: unknown way %q; it is one of %v", f.via, containers.Vias())
	}
	if f.profile != "" && !slices.Contains(lockspec.Profiles(), lockspec.Profile(f.profile)) {
		var names []string
		for _, p := range lockspec.Profiles() {
			names = append(names, string(p))
		}
		return exit(result.ExitUsage, "unknown profile %q; %s", f.profile, nearest(f.profile, names))
	}
	if f.image != "" && f.via != string(containers.Docked) {
		return exit(result.ExitUsage, "--image %s: it is of use only with --via docker", f.image)
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
	amend, err := f.amend()
	if err != nil {
		return err
	}
	base, err := f.readBaseline()
	if err != nil {
		return err
	}
	t, err := parseTarget(text)
	if err != nil {
		return err
	}
	if f.via != string(containers.Auto) && !strings.HasPrefix(text, "up:") {
		return exit(result.ExitUsage, "--via %s: a run starts no server for target %s; it does for up:NAME, see lockcheck list targets", f.via, t.text)
	}
	if f.seed == 0 {
		f.seed = rand.Int64N(1<<31-1) + 1
	}
	if parent == nil {
		parent = context.Background()
	}
	ctx, hard, stop := d.signals(parent)
	defer stop()
	r := &run{d: d, f: f, t: t, cases: cases, only: only, outputs: outputs, amend: amend, base: base,
		progress: newProgress(d), started: time.Now(), interrupted: ctx.Done()}
	defer context.AfterFunc(hard, r.endAtOnce)()
	timed, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return r.all(timed)
}

func (f *runFlags) readBaseline() (*result.Report, error) {
	if f.baseline == "" {
		return nil, nil
	}
	base, err := result.ReadReport(f.baseline)
	if err != nil {
		return nil, exit(result.ExitUsage, "--baseline: %w", err)
	}
	return base, nil
}
