package explore

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// leaseServer is one honest server without a disk: a restart forgets every key
// but never the last token.
type leaseServer struct {
	w     *World
	state table
}

// NewLeaseServer is one server that grants keys for a time.
func NewLeaseServer(w *World) Service { return &leaseServer{w: w} }

func (s *leaseServer) Class() lockspec.Class { return lockspec.Leased }
func (s *leaseServer) Servers() int          { return 1 }

func (s *leaseServer) Handle(_ int, q Request) (Reply, bool) {
	return s.state.handle(q, s.w.now()), true
}

func (s *leaseServer) Faults() []string { return []string{"restart", "evict", "server-clock"} }

func (s *leaseServer) Strike(f Strike) func() {
	switch f.Fault {
	case "restart":
		s.state.keys = nil
	case "evict":
		delete(s.state.keys, f.Key)
	case "server-clock":
		s.state.ahead += f.By
	}
	return nil
}

// Holders implements Ledger.
func (s *leaseServer) Holders(key string) []contract.Holder { return s.state.held(key, s.w.now()) }

// Plant implements Ledger.
func (s *leaseServer) Plant(key, owner string, lease time.Duration) {
	s.state.plant(key, owner, lease, s.w.now())
}
