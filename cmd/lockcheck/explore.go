package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/chaos/explore"
	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/reference/simulated"
	"github.com/lockcheck/lockcheck/reports/result"
)

// exploreIfAsked makes the program a worker of an exploration.
func exploreIfAsked() {
	explore.Main(func(name string) (*explore.Harness, error) {
		t, err := simulated.Find(name)
		return &t.Harness, err
	})
}

type exploreFlags struct {
	job       explore.Job
	processes int
	tsv       string
}

func newExplore(d *deps) *cobra.Command {
	f := exploreFlags{job: explore.Job{Options: *(&explore.Options{}).Filled()}}
	var help strings.Builder
	var names []string
	for _, t := range simulated.Targets() {
		names = append(names, t.Name)
		fmt.Fprintf(&help, "  %-12s %s\n", t.Name, t.Means)
	}
	cmd := &cobra.Command{
		Use:   "explore [TARGET]",
		Short: "Play many schedules of the engine in virtual time, on a simulated service",
		Long:  "Play many schedules of the engine in virtual time, on a simulated service, and\njudge each. Targets (default: lease):\n" + help.String(),
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.job.Target = strings.Join(append(args, "lease")[:1], "")
			if !slices.Contains(names, f.job.Target) {
				return exit(result.ExitUsage, "nothing simulated is named %q; %s", f.job.Target, nearest(f.job.Target, names))
			}
			if f.job.Schedules < 1 || f.processes < 1 || f.job.Size.Nodes < 1 || f.job.Size.Tenures < 1 || f.job.Size.Steps < 0 {
				return exit(result.ExitUsage, "--schedules, --processes, --nodes and --tenures must be at least 1")
			}
			return f.run(cmd.Context(), d)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.job.Schedules, "schedules", 1000, "how many")
	flags.Uint64Var(&f.job.Seed, "seed", 1, "of the first schedule; the next have the next seeds")
	flags.IntVar(&f.job.Size.Nodes, "nodes", 3, "nodes of a world")
	flags.IntVar(&f.job.Size.Tenures, "tenures", 3, "tenures of each node")
	flags.IntVar(&f.job.Size.Steps, "faults", 3, "faults of a schedule, at most")
	flags.IntVar(&f.job.Repeat, "repeat", 100, "play every n-th schedule twice and compare; -1: none")
	flags.IntVar(&f.processes, "processes", runtime.NumCPU(), "processes, each on one processor")
	flags.StringVar(&f.tsv, "append", "", "append a line with the counts to this file")
	return cmd
}

func (f *exploreFlags) run(parent context.Context, d *deps) error {
	if parent == nil {
		parent = context.Background()
	}
	ctx, _, stop := d.signals(parent)
	defer stop()
	last := time.Now()
	r, err := explore.Spawn(ctx, f.job, f.processes, func(r *explore.Report) {
		if time.Since(last) > 5*time.Second {
			last = time.Now()
			fmt.Fprintf(d.err, "%d schedules, %.0f/s, %d alarms\n", r.Schedules, rate(r.Schedules, r.Took), r.AlarmsN)
		}
	})
	if r != nil {
		f.print(d.out, r)
	}
	switch {
	case ctx.Err() != nil:
		return &exitError{code: result.ExitInterrupted}
	case err != nil:
		return exit(result.ExitInternal, "%w", err)
	case r.Stuck != "":
		return exit(result.ExitInternal, "%s", r.Stuck)
	}
	if f.tsv != "" {
		if err := f.note(r); err != nil {
			return exit(result.ExitInternal, "%w", err)
		}
	}
	if r.AlarmsN > 0 {
		return &exitError{code: result.ExitViolation}
	}
	return nil
}

func rate(n int, d time.Duration) float64 { return float64(n) / max(d.Seconds(), 1e-9) }

func (f *exploreFlags) print(out io.Writer, r *explore.Report) {
	played := r.Schedules + r.Repeated
	fmt.Fprintf(out, "%s: %d schedules from seed %d (%d played twice), %d histories that differ in more than their times\n", f.job.Target, r.Schedules, f.job.Seed, r.Repeated, r.Distinct())
	if r.Disturbed > 0 {
		fmt.Fprintf(out, "%d of those played twice could not be compared: the machine took the processor away each time\n", r.Disturbed)
	}
	fmt.Fprintf(out, "%.0f schedules/s on %d processes; %.0f a second of processor time; %d events each\n", rate(played, r.Took), f.processes, rate(played, r.CPU), r.Events/int64(max(1, r.Schedules)))
	for _, o := range []checker.Outcome{checker.Pass, checker.Hazardous, checker.Inconclusive, checker.Failed} {
		fmt.Fprintf(out, "%-12s %d\n", o, r.Outcomes[o])
	}
	for _, why := range sortedKeys(r.Doubts) {
		fmt.Fprintf(out, "inconclusive %d times: %s\n", r.Doubts[why], why)
	}
	f.coverage(out, r)
	for _, a := range r.Alarms {
		fmt.Fprintf(out, "seed %d: %s: %s\n", a.Seed, a.Rule, a.Text)
	}
}

// coverage is the table of what landed where, with its zero cells named.
func (f *exploreFlags) coverage(out io.Writer, r *explore.Report) {
	t, err := simulated.Find(f.job.Target)
	if err != nil {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\t")
	for _, p := range explore.Phases() {
		fmt.Fprintf(w, "%s\t", p)
	}
	fmt.Fprintln(w)
	var zero []string
	for _, fault := range t.Harness.Faults() {
		fmt.Fprintf(w, "%s\t", fault)
		for _, p := range explore.Phases() {
			cell := explore.Cell{Fault: fault, Phase: p}.String()
			fmt.Fprintf(w, "%d\t", r.Cells[cell])
			if r.Cells[cell] == 0 {
				zero = append(zero, cell)
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	if len(zero) > 0 {
		fmt.Fprintf(out, "never landed: %s\n", strings.Join(zero, ", "))
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// note appends the counts to a file of soaks.
func (f *exploreFlags) note(r *explore.Report) error {
	file, err := os.OpenFile(f.tsv, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "explore-%s\t%s\t%d\t%d\tschedules=%d alarms=%d inconclusive=%d repeated=%d disturbed=%d distinct=%d\n", f.job.Target, toolVersion(),
		f.job.Seed, f.job.Seed+uint64(f.job.Schedules)-1, r.Schedules, r.AlarmsN, r.Outcomes[checker.Inconclusive], r.Repeated, r.Disturbed, r.Distinct())
	return err
}
