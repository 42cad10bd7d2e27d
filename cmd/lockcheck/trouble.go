package main

import (
	"errors"
	"net"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
	"github.com/lockcheck/lockcheck/reports/result"
)

// trouble is the message for a service that cannot be used: it names the
// setting that is wrong, and no secret.
func trouble(target string, err error) error {
	code := result.ExitUnavailable
	if errors.Is(err, lockspec.ErrConfig) || errors.Is(err, lockspec.ErrUnsupported) {
		code = result.ExitUsage
	}
	why, dial := (*refusal.Error)(nil), (*net.OpError)(nil)
	switch {
	case errors.As(err, &why) && why.Setting != "":
		return exit(code, "target %s: %s: %s", target, why.Setting, why.Means)
	case why != nil:
		return exit(code, "target %s: %s", target, why.Means)
	case code == result.ExitUsage:
		return exit(code, "target %s: %w", target, err)
	case errors.As(err, &dial):
		err = dial // what a client makes of it may have a line for each way that it tried
	}
	return exit(code, "target %s: HOST:PORT: nothing answers there: %w", target, err)
}
