package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/cmd/lockcheck/reproduce"
	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// newReproduce shows a documented failure, or its cure.
func newReproduce(d *deps) *cobra.Command {
	f := runFlags{suites: []string{"contract", "chaos"}}
	cured := false
	cmd := &cobra.Command{
		Use:   "reproduce NAME",
		Short: "Show a documented failure of locks on real servers, or its cure",
		Long:  "Show a documented failure of locks on real servers, or, with --cured, that it does no harm where it is\nprevented. Ends with 0 where that was seen, with 2 where it was not, with 1 where the cure did not help.\n\n" + storyHelp(),
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fromEnvironment(cmd.Flags(), d.getenv); err != nil {
				return err
			}
			return tellStory(cmd, d, f, args[0], cured)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&cured, "cured", false, "show the cure instead")
	flags.DurationVar(&f.lease, "lease", 0, "lease to ask for (default: 500ms, raised on a machine that stalls)")
	flags.Int64Var(&f.seed, "seed", 0, "decides the schedule (default: drawn)")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "the whole run is ended after this")
	flags.StringVar(&f.runs, "runs", "lockcheck-runs", "where run folders go")
	flags.StringVar(&f.via, "via", string(containers.Auto), "how servers are started: local, docker or auto")
	return cmd
}

func storyHelp() string {
	var b strings.Builder
	b.WriteString("Stories:\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, s := range reproduce.Stories() {
		title, _, _ := strings.Cut(s.Title, ". ")
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, strings.TrimSuffix(title, "."))
	}
	_ = w.Flush()
	return b.String()
}

func tellStory(cmd *cobra.Command, d *deps, f runFlags, name string, cured bool) error {
	var names []string
	for _, s := range reproduce.Stories() {
		if s.Name == name {
			play := s.Shown
			if cured {
				play = s.Cured
			}
			if f.lease == 0 {
				f.lease = play.Lease
			}
			return runTargetAnd(cmd.Context(), d, f, play.Target, &telling{play, func(r *result.Report) error { return tell(d, s, play, cured, r) }})
		}
		names = append(names, s.Name)
	}
	return exit(result.ExitUsage, "no story is named %q; %s", name, nearest(name, names))
}

// telling is what a run does for a story.
type telling struct {
	play reproduce.Play
	tell func(*result.Report) error // in place of the outputs
}

// cases are those of the play.
func (t *telling) cases(all []contract.Case) []contract.Case {
	if t.play.Own != nil {
		return []contract.Case{*t.play.Own}
	}
	return slices.DeleteFunc(all, func(c contract.Case) bool { return c.ID != t.play.Case })
}

// tell tells what was seen of the story.
func tell(d *deps, s reproduce.Story, play reproduce.Play, cured bool, r *result.Report) error {
	fmt.Fprintf(d.out, "%s\n%s\n(%s)\n\n", s.Name, s.Title, s.Source)
	if cured {
		fmt.Fprintf(d.out, "The cure: %s\n\n", s.Cure)
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.ID != play.ID() {
			continue
		}
		fmt.Fprintf(d.out, "On %s, %s:\n", r.Target, c.Name)
		for _, line := range c.Story {
			fmt.Fprintf(d.out, "   %s\n", line)
		}
		seen, says := play.Sign(r, c)
		switch {
		case seen && cured:
			fmt.Fprintf(d.out, "\nCURED: %s.\n", says)
			return nil
		case seen:
			fmt.Fprintf(d.out, "\nSHOWN: %s.\n", says)
			return nil
		}
		fmt.Fprintf(d.out, "\nNOT SHOWN: %s (the case is %s", says, c.Status)
		if c.Reason != "" {
			fmt.Fprintf(d.out, ": %s", c.Reason)
		}
		fmt.Fprintln(d.out, ").")
		if cured && (c.Status == result.Fail || c.Status == result.Hazard) {
			return &exitError{code: result.ExitViolation}
		}
		return &exitError{code: result.ExitInconclusive}
	}
	return exit(result.ExitInternal, "case %s did not run", play.ID())
}
