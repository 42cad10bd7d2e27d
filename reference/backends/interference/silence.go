package interference

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Silence is whether a fault of the harness's own keeps a service from
// answering. The zero value is none.
type Silence struct {
	mu      sync.Mutex
	reasons int
	begun   chan struct{} // closed while it lasts

	standing sync.Mutex
	resumed  func() // ends the silence of a server that stands still; nil: none does
}

// Begin begins a silence; the function ends it.
func (s *Silence) Begin() (end func()) {
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

// Stop begins the silence of a server that pause makes stand still. Where pause
// fails there is none.
func (s *Silence) Stop(pause func() error) error {
	s.standing.Lock()
	defer s.standing.Unlock()
	if s.resumed != nil {
		return pause()
	}
	end := s.Begin()
	if err := pause(); err != nil {
		end()
		return err
	}
	s.resumed = end
	return nil
}

// Continue ends what Stop began, once resume has worked.
func (s *Silence) Continue(resume func() error) error {
	s.standing.Lock()
	defer s.standing.Unlock()
	err := resume()
	if err == nil && s.resumed != nil {
		s.resumed()
		s.resumed = nil
	}
	return err
}

// now is closed as soon as there is a silence.
func (s *Silence) now() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.channel()
}

func (s *Silence) channel() chan struct{} {
	if s.begun == nil {
		s.begun = make(chan struct{})
	}
	return s.begun
}

// ErrSilenced is the answer to a question that a fault of the harness's own
// keeps from being answered. It matches ErrUnsupported.
var ErrSilenced = fmt.Errorf("%w: a fault of this harness keeps the server silent", lockspec.ErrUnsupported)

// Ping asks for a sign of life, unless a silence forbids it or begins
// meanwhile.
func (s *Silence) Ping(ctx context.Context, ask func(context.Context) error) error {
	silenced := s.now()
	select {
	case <-silenced:
		return ErrSilenced
	default:
	}
	answer := make(chan error, 1)
	go func() { answer <- ask(ctx) }()
	select {
	case err := <-answer:
		select {
		case <-silenced:
			return ErrSilenced
		default:
			return err
		}
	case <-silenced:
		return ErrSilenced
	case <-ctx.Done():
		return ctx.Err()
	}
}
