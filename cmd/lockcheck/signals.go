package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// notify ends ctx at the first SIGINT or SIGTERM: faults are healed, what ran
// is judged. The second ends hard: the program ends at once.
func notify(parent context.Context) (ctx, hard context.Context, stop func()) {
	ctx, soft := context.WithCancel(parent)
	hard, end := context.WithCancel(parent)
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for n, f := range []func(){soft, end} {
			select {
			case <-c:
				if n == 0 {
					fmt.Fprintln(os.Stderr, "interrupted: faults are healed and what ran is judged; once more ends at once")
				}
				f()
			case <-done:
				return
			}
		}
	}()
	return ctx, hard, func() { signal.Stop(c); close(done); soft(); end() }
}
