package redis

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockcheck/lockcheck/lockspec"
)

// silence is whether a fault of the harness's own keeps the server from
// answering.
type silence struct {
	mu      sync.Mutex
	reasons int
	begun   chan struct{} // closed while it lasts
}

// begin begins a silence; the function ends it.
func (s *silence) begin() (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons++; s.reasons == 1 {
		close(s.channel())
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.reasons--; s.reasons == 0 {
			s.begun = nil
		}
	})
}

// now is closed as soon as there is a silence.
func (s *silence) now() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.channel()
}

func (s *silence) channel() chan struct{} {
	if s.begun == nil {
		s.begun = make(chan struct{})
	}
	return s.begun
}

var errSilenced = fmt.Errorf("%w: a fault of this harness keeps the server silent", lockspec.ErrUnsupported)

// Ping implements contract.Pinger: it asks the server itself, past the relay.
func (f *Faults) Ping(ctx context.Context) error {
	silenced := f.silence.now()
	answer := make(chan error, 1)
	select {
	case <-silenced:
		return errSilenced
	default:
	}
	go func() { answer <- f.admin.Ping(ctx).Err() }()
	select {
	case err := <-answer:
		select {
		case <-silenced: // it began meanwhile
			return errSilenced
		default:
			return err
		}
	case <-silenced:
		return errSilenced
	case <-ctx.Done():
		return ctx.Err()
	}
}
