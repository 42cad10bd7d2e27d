package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reports/result"
)

// newDriverCheck tells the author of a driver what is right and what is wrong
// with it, before any lock is judged through it.
func newDriverCheck(d *deps) *cobra.Command {
	var endpoints []string
	var lease time.Duration
	asJSON := false
	cmd := &cobra.Command{
		Use:   "driver-check COMMAND",
		Short: "Tell the author of a driver which rules of the protocol it keeps",
		Long: "Start a driver again and again and try every rule of the driver protocol on\n" +
			"it, also with what no well-behaved harness sends. It says nothing about the\n" +
			"lock behind the driver: that is what run is for.\n\n" + exitHelp(),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fromEnvironment(cmd.Flags(), d.getenv); err != nil {
				return err
			}
			t, err := execTarget(strings.TrimPrefix(args[0], "exec:"))
			if err != nil {
				return err
			}
			if lease < 0 {
				return exit(result.ExitUsage, "--lease %s is negative", lease)
			}
			parent := cmd.Context()
			if parent == nil {
				parent = context.Background()
			}
			ctx, _, stop := d.signals(parent)
			defer stop()
			return checkDriver(ctx, d, driver.Config{Command: t.command, Endpoints: endpoints}, lease, asJSON)
		},
	}
	cmd.Flags().StringSliceVar(&endpoints, "endpoint", nil, "host:port of the lock service that the driver is to use")
	cmd.Flags().DurationVar(&lease, "lease", 0, "lease to ask for, where one is to run out (default 1s)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// checkDriver tries the driver and says what was found.
func checkDriver(ctx context.Context, d *deps, config driver.Config, lease time.Duration, asJSON bool) error {
	guard, err := driver.StartGuard(nil)
	if err == nil {
		config.Guard = guard
		defer guard.Close()
	}
	fmt.Fprintln(d.err, "trying every rule; this takes half a minute or so")
	found, err := driver.Conform(ctx, config, &driver.ConformOptions{Lease: lease})
	if err != nil {
		return exit(result.ExitUnavailable, "%w", err)
	}
	if asJSON {
		enc := json.NewEncoder(d.out)
		enc.SetIndent("", "  ")
		err = enc.Encode(struct {
			Schema  string `json:"schema"`
			Verdict string `json:"verdict"`
			*driver.Conformance
		}{"lockcheck.driver-check/1", verdict(found), found})
	} else {
		err = printConformance(d.out, found)
	}
	switch {
	case err != nil:
		return exit(result.ExitInternal, "%w", err)
	case !found.Kept():
		return &exitError{code: result.ExitViolation}
	case ctx.Err() != nil:
		return &exitError{code: result.ExitInterrupted}
	}
	return nil
}

func verdict(c *driver.Conformance) string {
	if c.Kept() {
		return "kept"
	}
	return "broken"
}

// printConformance writes a line a rule, and below it what is wrong.
func printConformance(w io.Writer, c *driver.Conformance) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, class %s: %s\n\n", c.Name, c.Class, strings.Join(c.Features, " "))
	kept, broken, open := 0, 0, 0
	for _, t := range c.Trials {
		fmt.Fprintf(&b, "%-5s  %-9s  %s\n", t.Rule, t.Standing, t.Says)
		switch t.Standing {
		case driver.RuleKept:
			kept++
		case driver.RuleBroken:
			broken++
		default:
			open++
		}
		for _, f := range t.Faults {
			fmt.Fprintf(&b, "       wrong: %s\n", f.What)
			if f.Line != "" {
				fmt.Fprintf(&b, "       line:  %s\n", f.Line)
			}
			fmt.Fprintf(&b, "       do:    %s\n", f.Do)
		}
		for _, gap := range t.Gaps {
			fmt.Fprintf(&b, "       not tried: %s\n", gap)
		}
	}
	fmt.Fprintf(&b, "\n%d rules kept, %d broken, %d not tried\n", kept, broken, open)
	_, err := io.WriteString(w, b.String())
	return err
}
