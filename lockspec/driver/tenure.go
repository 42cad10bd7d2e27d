package driver

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/lockcheck/lockcheck/lockspec"
)

var errDoubt = fmt.Errorf("%w: the connection is in doubt", lockspec.ErrUnavailable)

// tenure is a lease that the driver has granted. One goroutine, watch, reports
// what the lease raises by itself, in order.
type tenure struct {
	id    string
	owner *owner
	lease lockspec.Lease

	lost     <-chan struct{} // nil where the lease has no such power
	renewals <-chan lockspec.Renewal
	doubts   <-chan bool
	doubt    atomic.Bool

	over    bool               // released, or known not to be held; under server.mu
	ended   chan struct{}      // closed when nothing more is to be watched for
	flushes chan chan struct{} // asks watch to report all that is there
	silence chan struct{}      // closed when watch reports no more
}

func newTenure(id string, o *owner, lease lockspec.Lease) *tenure {
	t := &tenure{id: id, owner: o, lease: lease, ended: make(chan struct{}), flushes: make(chan chan struct{}), silence: make(chan struct{})}
	if n, can := lease.(lockspec.Notifier); can {
		t.lost = n.Lost()
	}
	if r, can := lease.(lockspec.RenewalSource); can {
		t.renewals = r.Renewals()
	}
	if d, can := lease.(lockspec.Doubter); can {
		t.doubts = d.Doubts()
	}
	return t
}

// silent says that the lease never raises anything.
func (t *tenure) silent() bool { return t.lost == nil && t.renewals == nil && t.doubts == nil }

func (t *tenure) token() Token {
	if fenced, can := t.lease.(lockspec.Fenced); can {
		return Token(fenced.Token())
	}
	return 0
}

// cause is nil unless the loss was raised, then an error that matches ErrLost.
func (t *tenure) cause() error {
	select {
	case <-t.lost: // never, if nil
	default:
		return nil
	}
	// Its text only: what it wraps must not outvote ErrLost in OutcomeOf.
	if err := t.lease.(lockspec.Notifier).Cause(); err != nil {
		return lossError(strings.TrimPrefix(err.Error(), lockspec.ErrLost.Error()+": "))
	}
	return lockspec.ErrLost
}

func lossError(reason string) error {
	if reason == "" || reason == lockspec.ErrLost.Error() {
		return lockspec.ErrLost
	}
	return fmt.Errorf("%w: %s", lockspec.ErrLost, reason)
}

// doubted says whether the connection is in doubt by what was raised so far.
func (t *tenure) doubted() bool {
	if t.doubts == nil {
		return false
	}
	t.flush()
	return t.doubt.Load()
}

// watch reports what the lease raises until it is lost or released, or ctx
// ends. Receiving from a channel and writing the line are two steps, so nobody
// else receives: flush asks watch to be through with both.
func (t *tenure) watch(ctx context.Context, emit func(Event)) {
	defer close(t.silence)
	for {
		select {
		case r := <-t.renewals:
			emit(t.renewed(r))
		case doubt := <-t.doubts:
			emit(t.wavered(doubt))
		case <-t.lost:
			t.report(emit)
			return
		case done := <-t.flushes:
			over := t.report(emit)
			close(done)
			if over {
				return
			}
		case <-t.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// report writes all that was raised until now, the loss last; over tells that
// there was a loss, after which nothing is reported.
func (t *tenure) report(emit func(Event)) (over bool) {
	cause := t.cause() // first: what came before the loss was seen before it
	for {
		select {
		case r := <-t.renewals:
			emit(t.renewed(r))
			continue
		case doubt := <-t.doubts:
			emit(t.wavered(doubt))
			continue
		default:
		}
		break
	}
	if cause == nil {
		return false
	}
	emit(t.gone(cause))
	return true
}

// flush waits until all that was raised before it is written. It is false once
// there will be nothing more.
func (t *tenure) flush() bool {
	done := make(chan struct{})
	select {
	case t.flushes <- done:
		<-done
		return true
	case <-t.silence:
		return false
	}
}

func (t *tenure) renewed(r lockspec.Renewal) Event {
	return Event{Event: eventRenewed, Lease: t.id, LeaseMS: Millis(r.Lease), SentNS: Nanos(r.Sent)}
}

func (t *tenure) wavered(doubt bool) Event {
	t.doubt.Store(doubt)
	if doubt {
		return Event{Event: eventDoubt, Lease: t.id}
	}
	return Event{Event: eventSure, Lease: t.id}
}

// gone tells of the loss. Where the lease does not know when it raised it, now
// is the moment at which it was seen.
func (t *tenure) gone(cause error) Event {
	e := Event{Event: eventLost, Lease: t.id, Reason: strings.TrimPrefix(cause.Error(), lockspec.ErrLost.Error()+": ")}
	if stamped, can := t.lease.(lockspec.LossStamper); can {
		e.DriverNS = Nanos(stamped.LostAt())
	}
	if e.DriverNS == 0 {
		e.DriverNS = now()
	}
	return e
}
