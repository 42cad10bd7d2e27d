package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockcheck/lockcheck/lockspec"
)

// refusal says in lockcheck's words why a key was not granted. closed is how
// the Session was closed: with its lease etcd deletes whatever the attempt has
// left, so that nothing can be granted later.
//
// Lock ends with its context's error where the key stayed held and where etcd
// was away. Only whether etcd answers the close tells them apart.
func refusal(ctx context.Context, err, closed error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, concurrency.ErrSessionExpired):
		return harmless{fmt.Errorf("%w: %v", lockspec.ErrUnavailable, err)}
	case closed != nil:
		return fmt.Errorf("%w: %v; close: %v", lockspec.ErrUnavailable, err, closed)
	case errors.Is(err, concurrency.ErrLocked):
		return fmt.Errorf("%w: %v", lockspec.ErrBusy, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %v", lockspec.ErrTimeout, err)
	}
	return fmt.Errorf("%w: %v", lockspec.ErrUnavailable, err)
}

// unavailable keeps what etcd says as text, unless it is the caller's context
// that has ended: a deadline of etcd's own must not pass for a cancelled call.
func unavailable(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("%w: %v", lockspec.ErrUnavailable, err)
}

// harmless says of an error that nothing was done.
type harmless struct{ error }

func (h harmless) Unwrap() error { return h.error }
func (harmless) NoEffect() bool  { return true }

// etcdVersion is that of the client library.
var etcdVersion = func() string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, m := range info.Deps {
			if m.Path == "go.etcd.io/etcd/client/v3" {
				return m.Version
			}
		}
	}
	return "(unknown version)"
}()
