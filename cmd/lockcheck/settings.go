package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockcheck/lockcheck/chaos/explore"
	"github.com/lockcheck/lockcheck/containers/docker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reports/result"
)

// twin is the environment variable that stands for a flag.
func twin(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

const envPrefix = "LOCKCHECK_"

// fromEnvironment sets every flag that was not given from its twin
// LOCKCHECK_NAME.
func fromEnvironment(flags *pflag.FlagSet, getenv func(string) string) error {
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		name := twin(f.Name)
		if v := getenv(name); v != "" && !f.Changed && err == nil {
			if e := flags.Set(f.Name, v); e != nil {
				err = exit(result.ExitUsage, "%s=%s: %w", name, v, e)
			}
		}
	})
	return err
}

// internal are the variables by which this program speaks to itself.
var internal = []string{envServe, driver.EnvDriver, driver.EnvGuard, docker.EnvReaper, explore.EnvJob}

// warnUnknown tells of variables that look like settings and are none: a
// misspelt one would be ignored, and nobody would know.
func warnUnknown(root *cobra.Command, d *deps) {
	var known []string
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, twin(f.Name)) })
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	for _, pair := range d.environ() {
		name, _, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, envPrefix+"TEST_") || slices.Contains(internal, name) || slices.Contains(known, name) {
			continue
		}
		fmt.Fprintf(d.err, "lockcheck: warning: %s is no setting and is ignored; %s\n", name, nearest(name, unique(known)))
	}
}

// boundNames are the bounds that --bound takes, named as in the driver
// protocol, and where each goes.
var boundNames = []struct {
	name string
	set  func(b *lockspec.Bounds, value string) error
}{
	{"takeover", span(func(b *lockspec.Bounds) *time.Duration { return &b.Takeover })},
	{"loss", span(func(b *lockspec.Bounds) *time.Duration { return &b.Loss })},
	{"loss_margin", span(func(b *lockspec.Bounds) *time.Duration { return &b.LossMargin })},
	{"renew_every", span(func(b *lockspec.Bounds) *time.Duration { return &b.RenewEvery })},
	{"tolerates", span(func(b *lockspec.Bounds) *time.Duration { return &b.Tolerates })},
	{"cancel", span(func(b *lockspec.Bounds) *time.Duration { return &b.Cancel })},
	{"poll", span(func(b *lockspec.Bounds) *time.Duration { return &b.Poll })},
	{"lease_min", span(func(b *lockspec.Bounds) *time.Duration { return &b.LeaseMin })},
	{"lease_max", span(func(b *lockspec.Bounds) *time.Duration { return &b.LeaseMax })},
	{"clock_rate", ratio(func(b *lockspec.Bounds) *float64 { return &b.ClockRate })},
	{"loss_ratio", ratio(func(b *lockspec.Bounds) *float64 { return &b.LossRatio })},
	{"loss_margin_ratio", ratio(func(b *lockspec.Bounds) *float64 { return &b.LossMarginRatio })},
	{"renew_every_ratio", ratio(func(b *lockspec.Bounds) *float64 { return &b.RenewEveryRatio })},
	{"key_max", func(b *lockspec.Bounds, value string) (err error) {
		b.KeyMax, err = strconv.Atoi(value)
		return err
	}},
}

func span(of func(*lockspec.Bounds) *time.Duration) func(*lockspec.Bounds, string) error {
	return func(b *lockspec.Bounds, value string) (err error) {
		*of(b), err = time.ParseDuration(value)
		if err == nil && *of(b) < 0 {
			err = fmt.Errorf("%s is negative", value)
		}
		return err
	}
}

func ratio(of func(*lockspec.Bounds) *float64) func(*lockspec.Bounds, string) error {
	return func(b *lockspec.Bounds, value string) (err error) {
		*of(b), err = strconv.ParseFloat(value, 64)
		if err == nil && !(*of(b) >= 0) {
			err = fmt.Errorf("%s is no ratio", value)
		}
		return err
	}
}

// amend is what the user says of the lock, over what it says itself: its class,
// and bounds that it does not name or names wrongly.
func (f *runFlags) amend() (func(*lockspec.Description), error) {
	class := lockspec.Class(f.class)
	if f.class != "" && !slices.Contains(classes, f.class) {
		return nil, exit(result.ExitUsage, "--class: unknown class %q; %s", f.class, nearest(f.class, classes))
	}
	var sets []func(*lockspec.Bounds)
	for _, text := range f.bounds {
		set, err := parseBound(text)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return func(d *lockspec.Description) {
		if class != "" {
			d.Class = class
		}
		for _, set := range sets {
			set(&d.Bounds)
		}
	}, nil
}

// classes are the words of --class.
var classes = []string{string(lockspec.Consensus), string(lockspec.Leased), string(lockspec.ReplicatedLease), string(lockspec.Session), string(lockspec.Memory)}

func parseBound(text string) (func(*lockspec.Bounds), error) {
	name, value, found := strings.Cut(text, "=")
	if !found {
		return nil, exit(result.ExitUsage, "--bound %q: the form is NAME=VALUE, as in takeover=2s", text)
	}
	var names []string
	for _, row := range boundNames {
		names = append(names, row.name)
		if row.name != name {
			continue
		}
		var tried lockspec.Bounds
		if err := row.set(&tried, value); err != nil {
			return nil, exit(result.ExitUsage, "--bound %q: %w", text, err)
		}
		return func(b *lockspec.Bounds) { _ = row.set(b, value) }, nil
	}
	return nil, exit(result.ExitUsage, "--bound %q: unknown bound %q; %s", text, name, nearest(name, names))
}
