package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/reference/memory"
	"github.com/lockcheck/lockcheck/reports/result"
)

// newServe serves the memory backend, for a look by hand and for drivers that
// speak its protocol, such as the example in Python.
func newServe(d *deps) *cobra.Command {
	var listen, admin string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the memory backend until interrupted",
		Long: "Serve the memory backend until interrupted. One line on standard output says\n" +
			"where: HOST:PORT, and that of the admin port where there is one. Whoever\n" +
			"reaches a port can take every lock of it, so both stay on this machine unless\n" +
			"told otherwise.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd.Flags(), d.getenv); err != nil {
				return err
			}
			parent := cmd.Context()
			if parent == nil {
				parent = context.Background()
			}
			ctx, _, stop := d.signals(parent)
			defer stop()
			return serveAt(ctx, d, listen, admin)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "host:port to serve at; port 0: one that is free")
	cmd.Flags().StringVar(&admin, "admin", "", "host:port of the admin port, which counts, drops, evicts, restarts (default: none)")
	return cmd
}

// serveAt serves until ctx ends.
func serveAt(ctx context.Context, d *deps, listen, admin string) error {
	data, err := net.Listen("tcp", listen)
	if err != nil {
		return exit(result.ExitUsage, "--listen %s: %w", listen, err)
	}
	defer data.Close()
	says := data.Addr().String()
	var powers net.Listener
	if admin != "" {
		if powers, err = net.Listen("tcp", admin); err != nil {
			return exit(result.ExitUsage, "--admin %s: %w", admin, err)
		}
		defer powers.Close()
		says += " " + powers.Addr().String()
	}
	fmt.Fprintln(d.out, says)
	return memory.Serve(ctx, data, powers, nil)
}
