package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// cancelDefault is how long a cancelled call is waited for where the lock
// promises no bound.
const cancelDefault = time.Second

// ErrNoReply says that a cancelled call was given up: its driver had not answered
// by the end of the time that the lock claims to need for that.
var ErrNoReply = errors.New("no reply yet")

// do sends a request and waits for its reply. Once ctx has ended it asks the
// driver to cancel and gives the reply the time that the lock claims to need: a
// reply that is there by then decides, whatever it says, because only the driver
// knows. After that the error is ctx's.
func (c *conn) do(ctx context.Context, q Request) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, harmless{fmt.Errorf("%s: %w", q.Op, err)}
	}
	k, err := c.send(q)
	if err != nil {
		return reply{}, fmt.Errorf("%s: %w", q.Op, err)
	}
	k.late = lockspec.LateOf(ctx) // nobody reads it before the call is given up
	return c.await(ctx, k)
}

// late is the reply as one who had given up is told it.
func (r reply) late(op string) lockspec.Late {
	l := lockspec.Late{Token: int64(r.Token), Err: r.error(context.Background(), op)}
	if r.lease != nil {
		l.Lease = r.lease.fenced()
	}
	if op == opRenew {
		l.Granted = time.Duration(r.LeaseMS)
	}
	return l
}

// await is the second half of do.
func (c *conn) await(ctx context.Context, k *call) (reply, error) {
	select {
	case got := <-k.replied:
		return got, got.error(ctx, k.Op)
	case <-ctx.Done():
	}
	if got, there := c.cancel(k); there {
		return got, got.error(ctx, k.Op)
	}
	return reply{}, fmt.Errorf("%s: %w: %w", k.Op, ErrNoReply, ctx.Err())
}

// cancel gives up a call.
func (c *conn) cancel(k *call) (got reply, there bool) {
	says := c.node.Describe()
	if !says.Claims(lockspec.Cancel) || c.node.Paused() {
		return c.abandon(k)
	}
	cancel, err := c.send(Request{Op: opCancel, Target: k.ID})
	if err != nil {
		return c.abandon(k)
	}
	_, _ = c.abandon(cancel)
	bound := says.Bounds.Cancel
	if bound <= 0 {
		bound = cancelDefault
	}
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case got = <-k.replied:
		return got, true
	case <-timer.C:
		return c.abandon(k)
	}
}

// error is the error that a reply says.
func (r reply) error(ctx context.Context, op string) error {
	switch {
	case r.err != nil:
		return fmt.Errorf("%s: %w", op, r.err)
	case r.Outcome == lockspec.OK:
		return nil
	}
	err := &replyError{op: op, outcome: r.Outcome, message: r.Message}
	if r.Outcome == lockspec.Cancelled {
		err.ctx = ctx.Err()
	}
	if r.Effect == noEffect {
		return harmless{err}
	}
	return err
}

// replyError is what a driver answered.
type replyError struct {
	op      string
	outcome lockspec.Outcome
	message string
	ctx     error // of the call, where that was what ended it
}

func (e *replyError) Error() string {
	if e.message == "" {
		return fmt.Sprintf("%s: %s", e.op, e.outcome)
	}
	return fmt.Sprintf("%s: %s: %s", e.op, e.outcome, e.message)
}

func (e *replyError) Unwrap() []error {
	errs := []error{e.outcome.Err()}
	if e.ctx != nil {
		errs = append(errs, e.ctx)
	}
	return errs
}
