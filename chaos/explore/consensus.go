package explore

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// consensus is a majority that agrees on every step: nothing that one server
// suffers is forgotten. While it chooses a new leader it answers nobody, and
// the new leader begins every lease anew, because it does not know what the old
// one had last heard. So it may keep a key longer than promised, never shorter.
type consensus struct {
	w     *World
	state table
}

// NewConsensus is a service whose members agree on who holds what.
func NewConsensus(w *World) Service { return &consensus{w: w} }

func (s *consensus) Class() lockspec.Class { return lockspec.Consensus }
func (s *consensus) Servers() int          { return 1 }

func (s *consensus) Handle(_ int, q Request) (Reply, bool) {
	return s.state.handle(q, s.w.now()), true
}

func (s *consensus) Faults() []string { return []string{"elect"} }

// Strike chooses a new leader.
func (s *consensus) Strike(Strike) func() {
	door, began := s.w.doors[0], s.w.now()
	door.shut()
	return func() {
		for key, e := range s.state.keys {
			if began < e.until {
				e.until = max(e.until, s.w.now()+e.lease)
				s.state.keys[key] = e
			}
		}
		door.open()
	}
}

// Holders implements Ledger.
func (s *consensus) Holders(key string) []contract.Holder { return s.state.held(key, s.w.now()) }

// Plant implements Ledger.
func (s *consensus) Plant(key, owner string, lease time.Duration) {
	s.state.plant(key, owner, lease, s.w.now())
}
