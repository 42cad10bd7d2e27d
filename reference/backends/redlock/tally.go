package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/redis"
)

// voter is who votes for an owner. What it asks of one server is asked in order,
// also where nobody waited for the answer: else the release could overtake the
// vote, on another connection, and leave it until its lease ends.
type voter struct {
	name string          // the owner on the servers
	last []chan struct{} // by server, closed once the last call has ended; nil: there was none
}

func (b *Backend) newVoter(name string) *voter {
	return &voter{name, make([]chan struct{}, len(b.servers))}
}

// ask asks every server at once, and says what each answered. after runs once
// a server has answered, in the same goroutine, and nobody waits for it.
func (b *Backend) ask(v *voter, lease time.Duration, call func(context.Context, *redis.Backend) error, after func(*redis.Backend)) <-chan error {
	answers := make(chan error, len(b.servers))
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, s := range b.servers {
		before, ended := v.last[n], make(chan struct{})
		v.last[n] = ended
		b.working.Go(func() {
			defer close(ended)
			if before != nil {
				<-before
			}
			within, cancel := b.bounded(lease)
			err := call(within, s)
			cancel()
			answers <- err
			if after != nil {
				after(s)
			}
		})
	}
	return answers
}

// leastTimeout is enough for a server that answers, on a busy machine, a new connection included.
const leastTimeout = 200 * time.Millisecond

// bounded bounds one call of one server. It does not end with the caller: who
// has a quorum does not wait for the rest, and the rest is asked all the same.
func (b *Backend) bounded(lease time.Duration) (context.Context, context.CancelFunc) {
	return b.boundedBy(context.Background(), lease)
}

func (b *Backend) boundedBy(ctx context.Context, lease time.Duration) (context.Context, context.CancelFunc) {
	limit := b.opts.ServerTimeout
	if limit == 0 {
		limit = max(lease/4, leastTimeout)
	}
	return context.WithTimeout(ctx, limit)
}

// tally is what the servers answered.
type tally struct {
	yes, busy, expired, taken, unsure int

	config    error            // that no retry can fix; the last of them
	configs   int              // how many
	unknown   error            // the last of what is unsure
	forgetful []*redis.Backend // have no vote of anybody
}

// forgotten is the answer of a server that has nobody's vote.
type forgotten struct {
	server *redis.Backend
	err    error
}

func (f *forgotten) Error() string { return f.err.Error() }
func (f *forgotten) Unwrap() error { return f.err }

// count takes answers in until they decide, all have come, or ctx ends.
func (b *Backend) count(ctx context.Context, answers <-chan error, decided func(*tally) bool) (*tally, error) {
	t := &tally{}
	for range b.servers {
		select {
		case err := <-answers:
			t.add(err)
		case <-ctx.Done():
			return t, ctx.Err()
		}
		if decided(t) {
			break
		}
	}
	return t, nil
}

func (t *tally) add(err error) {
	var f *forgotten
	if errors.As(err, &f) {
		t.forgetful = append(t.forgetful, f.server)
	}
	switch {
	case err == nil:
		t.yes++
	case errors.Is(err, lockspec.ErrBusy):
		t.busy++
	case reason(err) == reference.TakenOver:
		t.taken++
	case errors.Is(err, lockspec.ErrLost), errors.Is(err, lockspec.ErrNotHeld):
		t.expired++
	case errors.Is(err, lockspec.ErrConfig), errors.Is(err, lockspec.ErrUnsupported), errors.Is(err, lockspec.ErrInvalidKey):
		t.config, t.configs = err, t.configs+1
	default:
		t.unknown, t.unsure = err, t.unsure+1
	}
}

func reason(err error) reference.Reason {
	var loss *reference.LostError
	if errors.As(err, &loss) {
		return loss.Reason
	}
	return ""
}

// lost is how many servers do not have the vote.
func (t *tally) lost() int { return t.expired + t.taken }

// decidedAgainst: a quorum cannot be had any more, and it is clear why. Where
// some servers are busy and some silent, the others tell.
func (t *tally) decidedAgainst(b *Backend) bool {
	minority := len(b.servers) - b.quorum()
	return t.busy > minority || t.configs > minority || t.unsure > minority
}

// refusal is why an attempt failed. Only votes of others make it busy: a
// service that is half gone is an outage, though somebody has a vote.
func (t *tally) refusal(b *Backend) error {
	minority := len(b.servers) - b.quorum()
	switch {
	case t.configs > minority:
		return t.config
	case t.busy > minority, t.busy > 0 && t.unsure+t.configs == 0:
		return lockspec.ErrBusy
	}
	return fmt.Errorf("%w: %d of %d servers granted: %w", lockspec.ErrUnavailable, t.yes, len(b.servers), errors.Join(t.unknown, t.config))
}

// loss is why a renewal or a release failed: a loss only if a quorum can no
// longer have the vote.
func (t *tally) loss(b *Backend) error {
	minority := len(b.servers) - b.quorum()
	switch {
	case t.lost() > minority && t.taken > 0:
		return &reference.LostError{Reason: reference.TakenOver}
	case t.lost() > minority:
		return &reference.LostError{Reason: reference.Expired}
	}
	return fmt.Errorf("%w: %d of %d servers answered: %w", lockspec.ErrUnavailable, t.yes, len(b.servers), errors.Join(t.unknown, t.config))
}
