package explore

import "github.com/lockcheck/lockcheck/lockspec"

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
