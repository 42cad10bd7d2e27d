package main

import (
	"os"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/reports/result"
)

// seals are the ends of the histories that a run writes: a run that is ended at
// once still seals what it has seen.
type seals struct {
	mu  sync.Mutex
	all []func() error
}

func (s *seals) add(seal func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, seal)
}

// sealLimit is how long ending at once may take.
const sealLimit = 200 * time.Millisecond

// close seals, as far as that can be done within the limit.
func (s *seals) close() {
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, seal := range all {
			_ = seal()
		}
	}()
	select {
	case <-done:
	case <-time.After(sealLimit):
	}
}

// endAtOnce is the second interrupt. The guard ends what the run started.
func (r *run) endAtOnce() {
	r.seals.close()
	os.Exit(int(result.ExitInterrupted))
}
