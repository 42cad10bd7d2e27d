package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/lockcheck/lockcheck/lockspec"
)

// refusal says in lockcheck's words why a key was not granted.
//
// ErrTaken names a majority that others hold, whatever the rest answered: no
// such attempt can have been granted. Else any server that did not answer may
// be what the majority lacked.
//
// What redsync says is kept as text. It gives up a server after a twentieth of
// the lease, which is no deadline of the caller's: as an error that is found
// with errors.Is it would pass for a call that was cancelled.
func refusal(ctx context.Context, err error, wait time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case taken(err) && wait == 0:
		return fmt.Errorf("%w: %v", lockspec.ErrBusy, err)
	case taken(err):
		return fmt.Errorf("%w: %v", lockspec.ErrTimeout, err)
	}
	return fmt.Errorf("%w: %v", lockspec.ErrUnavailable, err)
}

// denial is refusal for what concerns a tenure: ok is a majority that agreed.
func denial(ok bool, err error) error {
	switch {
	case ok:
		return nil
	case taken(err), errors.Is(err, redsync.ErrLockAlreadyExpired) && !silent(err):
		return fmt.Errorf("%w: %v", lockspec.ErrNotHeld, err)
	case err == nil:
		return errors.New("redsync says no, and not why")
	}
	return fmt.Errorf("%w: %v", lockspec.ErrUnavailable, err)
}

// taken says that servers answered that the key is not ours, and that none
// which did not answer could have changed the result.
func taken(err error) bool {
	var majority *redsync.ErrTaken
	var one *redsync.ErrNodeTaken
	return errors.As(err, &majority) || errors.As(err, &one) && !silent(err)
}

// silent says that a server gave no answer, or an error for one.
func silent(err error) bool {
	var failed *redsync.RedisError
	return errors.As(err, &failed)
}
