package explore

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// sessions is a server that keeps a key for as long as a session lives: one
// that has not been heard of for Silence is taken to be dead, whatever it still
// believes (a half-open connection). Closing a session frees its key.
type sessions struct {
	w     *World
	state table
}

// Silence is how long a session server bears to hear nothing of a session.
const Silence = 600 * time.Millisecond

// NewSessions is a server that grants keys to sessions.
func NewSessions(w *World) Service { return &sessions{w: w} }

func (s *sessions) Class() lockspec.Class { return lockspec.Session }
func (s *sessions) Servers() int          { return 1 }

func (s *sessions) Handle(_ int, q Request) (Reply, bool) {
	q.Lease = Silence
	r := s.state.handle(q, s.w.now())
	r.Lease, r.Token = 0, 0
	return r, true
}

func (s *sessions) Faults() []string { return []string{"restart"} }

// Strike restarts the server: its sessions are gone.
func (s *sessions) Strike(Strike) func() {
	s.state.keys = nil
	return nil
}
