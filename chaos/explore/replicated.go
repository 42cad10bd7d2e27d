package explore

import (
	"maps"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// replicated is a primary that answers at once and tells its replica later. A
// failover makes the replica the primary, with what it had heard by then; what
// was granted since is forgotten. Tokens follow the time, so that they rise
// even then.
type replicated struct {
	w       *World
	primary table
	replica table
	life    int // of the primary
}

// NewReplicated is a primary with an asynchronous replica.
func NewReplicated(w *World) Service { return &replicated{w: w, primary: table{timed: true}} }

func (s *replicated) Class() lockspec.Class { return lockspec.ReplicatedLease }
func (s *replicated) Servers() int          { return 1 }

func (s *replicated) Handle(_ int, q Request) (Reply, bool) {
	r := s.primary.handle(q, s.w.now())
	if r.Outcome == lockspec.OK {
		s.replicate()
	}
	return r, true
}

// replicate sends the replica the state as it is now.
func (s *replicated) replicate() {
	state, life := s.primary, s.life
	state.keys = maps.Clone(s.primary.keys)
	time.AfterFunc(s.w.apart(s.w.draw(time.Millisecond, 30*time.Millisecond)), func() {
		s.w.mu.Lock()
		defer s.w.mu.Unlock()
		if life == s.life && state.version > s.replica.version {
			s.replica = state
		}
	})
}

func (s *replicated) Faults() []string { return []string{"failover", "evict"} }

func (s *replicated) Strike(f Strike) func() {
	switch f.Fault {
	case "failover":
		s.life++
		s.primary = s.replica
		s.primary.timed, s.primary.keys = true, maps.Clone(s.replica.keys)
	case "evict":
		delete(s.primary.keys, f.Key)
		s.primary.version++
		s.replicate()
	}
	return nil
}

// Holders implements Ledger.
func (s *replicated) Holders(key string) []contract.Holder { return s.primary.held(key, s.w.now()) }

// Plant implements Ledger.
func (s *replicated) Plant(key, owner string, lease time.Duration) {
	s.primary.plant(key, owner, lease, s.w.now())
	s.replicate()
}
