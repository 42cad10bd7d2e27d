package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Load is what a contender does with a key, over and over: take it, write to
// the resource, give it back.
type Load struct {
	Key   string
	Lease time.Duration // asked; 0 of a session
	Unit  time.Duration // what its pauses and patience are measured by; 0: the lease
	Work  time.Duration // of one write
	Count int           // acquisitions after which a contender stops; 0: until the context ends
	Poll  time.Duration // between two attempts; 0: a tenth of the unit

	// Polls makes a contender ask whether it still holds, every tenth of the
	// unit, in half of its sections. Only in half: a question can wake a lock
	// that notices a loss only when it is used.
	Polls bool
}

// Contend drives the process through the load until its count is reached or
// the context ends, and returns how often it held. Attempts ask for no wait:
// the harness does the waiting, because a grant that the harness saw the send
// of entitles from that send. Refusals and outages are part of the load.
func Contend(ctx context.Context, p *Process, rng *rand.Rand, l Load) int {
	if l.Unit == 0 {
		l.Unit = l.Lease
	}
	if l.Poll == 0 {
		l.Poll = l.Unit / 10
	}
	for held := 0; ; {
		if ctx.Err() != nil || l.Count > 0 && held >= l.Count {
			return held
		}
		t, err := p.Acquire(ctx, lockspec.Request{Key: l.Key, Lease: l.Lease})
		if err == nil {
			held++
			section(ctx, t, l, l.Polls && rng.IntN(2) == 0)
		}
		if Sleep(ctx, jitter(rng, l.Poll)) != nil {
			return held
		}
	}
}

// jitter is between half of d and d, so that contenders do not march in step.
func jitter(rng *rand.Rand, d time.Duration) time.Duration {
	return d/2 + time.Duration(rng.Int64N(int64(d/2)+1))
}

// section writes once and releases. The release is tried even where the
// context has ended or the write was refused: what was taken is given back.
func section(ctx context.Context, t *Tenure, l Load, poll bool) {
	defer t.Stop()
	var polls sync.WaitGroup
	done := make(chan struct{})
	if poll {
		polls.Go(func() { pollHeld(ctx, t, l.Unit/10, done) })
	}
	_ = t.Write(ctx, l.Work)
	close(done)
	polls.Wait()
	giveBack(ctx, t)
}

// giveBack releases, detached from the context but bounded.
func giveBack(ctx context.Context, t *Tenure) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience(t.Lease))
	defer cancel()
	_ = t.Release(ctx)
}

func pollHeld(ctx context.Context, t *Tenure, every time.Duration, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		if err := t.Held(ctx); errors.Is(err, lockspec.ErrUnsupported) || errors.Is(err, lockspec.ErrLost) || errors.Is(err, lockspec.ErrNotHeld) {
			return
		}
	}
}

// AcquireSoon polls for the key until it has it, the context ends, or an
// answer comes that no retry can change.
func AcquireSoon(ctx context.Context, p *Process, r lockspec.Request, every time.Duration) (*Tenure, error) {
	for {
		t, err := p.Acquire(ctx, r)
		switch o := lockspec.OutcomeOf(err); o {
		case lockspec.OK:
			return t, nil
		case lockspec.Busy, lockspec.Timeout, lockspec.Unavailable:
		default:
			return nil, err
		}
		if Sleep(ctx, every) != nil {
			return nil, err
		}
	}
}
