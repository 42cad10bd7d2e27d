package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reports/result"
)

// newDriver serves a built-in target over the driver protocol, for other
// harnesses and for a look at it by hand.
func newDriver(d *deps) *cobra.Command {
	return &cobra.Command{Use: "driver TARGET", Short: "Serve a built-in target over the driver protocol on stdin and stdout", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := parseTarget(args[0])
			if err != nil {
				return err
			}
			if !servable(t.url) || strings.HasPrefix(args[0], "up:") {
				return exit(result.ExitUsage, "driver serves memory://HOST:PORT, redis:// and redlock://, not %q", redact(args[0]))
			}
			open := func(ctx context.Context, at driver.Target) (driver.Lock, error) {
				if at.URL == "" {
					at.URL = t.url
				}
				return openLock(ctx, at)
			}
			return driver.Serve(d.in, d.out, open)
		}}
}

// servable says whether a driver needs no more than the URL.
func servable(url string) bool {
	scheme, _, _ := strings.Cut(url, "://")
	return slices.Contains([]string{"memory", "redis", "rediss", "redlock"}, scheme)
}
