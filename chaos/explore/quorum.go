package explore

import (
	"strings"

	"github.com/lockcheck/lockcheck/lockspec"
)

// QuorumServers is how many servers a quorum has.
const QuorumServers = 5

// quorum is servers that know nothing of each other. One that restarts has
// forgotten and serves on at once; one whose clock jumps ends leases early.
type quorum struct {
	w     *World
	state [QuorumServers]table
}

// NewQuorum is servers for a lock that needs most of them.
func NewQuorum(w *World) Service { return &quorum{w: w} }

func (s *quorum) Class() lockspec.Class { return lockspec.ReplicatedLease }
func (s *quorum) Servers() int          { return QuorumServers }

func (s *quorum) Handle(server int, q Request) (Reply, bool) {
	if e, held := s.state[server].live(q.Key, s.w.now()); held && q.Op == Acquire && olderTry(e.owner, q.Owner) {
		e.owner = q.Owner
		s.state[server].put(q.Key, e)
	}
	r := s.state[server].handle(q, s.w.now())
	r.Token = 0 // counters of independent servers order nothing
	return r, true
}

func (s *quorum) Faults() []string { return []string{"restart", "server-clock"} }

func (s *quorum) Strike(f Strike) func() {
	switch f.Fault {
	case "restart":
		s.state[f.Server].keys = nil
	case "server-clock":
		s.state[f.Server].ahead += f.By
	}
	return nil
}

// olderTry says whether two owners, written name#try, are one name of which the
// first is the older try. A vote for an older try is the same owner's: it is
// replaced, and what still travels of the older try finds it no more.
func olderTry(held, asks string) bool {
	h, hn, ok := strings.Cut(held, "#")
	a, an, is := strings.Cut(asks, "#")
	return ok && is && h == a && (len(hn) < len(an) || len(hn) == len(an) && hn < an)
}
