package checker

import (
	"slices"
	"strconv"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// point is an operation that has to, or may, take effect within an interval.
type point struct {
	op     history.Op
	lo, hi int64
	must   bool
	t      int // tenure
	token  int64
	read   bool
	count  int
	owner  string
	lease  int64
}

const forever = 1 << 30

// points reads the operations of a made history as intervals, without any of
// the code under test.
func (m made) points() []point {
	var ps []point
	openAt := map[string]int{}
	tenures := map[string]int{}
	for i := range m.events {
		e := &m.events[i]
		if e.Type == history.Invoke {
			p := point{op: e.Op, lo: e.Time, hi: forever, t: -1, read: e.Mode == lockspec.Read, count: e.Count, owner: e.Owner, lease: int64(e.Ask)}
			if e.Op != history.Acquire {
				p.t = tenures[e.Tenure]
			}
			openAt[e.Process+string(e.Op)] = len(ps)
			ps = append(ps, p)
			continue
		}
		n := openAt[e.Process+string(e.Op)]
		p := &ps[n]
		switch e.Type {
		case history.OK:
			p.must, p.hi = true, e.Time
			if e.Op == history.Acquire {
				p.token, p.t, p.lease = e.Token, n, int64(e.Lease)
				tenures[e.Tenure] = n
			}
		case history.Fail:
			switch {
			case e.Op == history.Acquire, e.Op == history.Release && m.model.Kind == ModelMutex:
				p.lo, p.hi = 1, 0 // had no effect
			case e.Op == history.Renew:
				p.op, p.hi, p.must = history.Release, forever, false // over at some time from its invocation on
			default:
				p.must, p.hi = true, e.Time
			}
		}
	}
	for n := range ps {
		if ps[n].op == history.Acquire && ps[n].t < 0 {
			ps[n].t = n
			if m.leased {
				ps[n].lease = forever // whatever it was granted, if it was
			}
		}
	}
	return slices.DeleteFunc(ps, func(p point) bool { return p.lo > p.hi })
}

// search tries all ways to put the points.
type search struct {
	model  Model
	leased bool
	ps     []point
	seen   map[string]bool
	nodes  int
}

type holding struct {
	t      int
	expiry int64
	read   bool
	count  int
	owner  string
}

func (s *search) key(done uint64, now int64, held []holding, token int64) string {
	b := make([]byte, 0, 64)
	b = strconv.AppendUint(b, done, 36)
	b = strconv.AppendInt(append(b, ' '), now, 36)
	b = strconv.AppendInt(append(b, ' '), token, 36)
	for _, h := range held {
		b = strconv.AppendInt(append(b, ' '), int64(h.t), 36)
		b = strconv.AppendInt(append(b, ' '), h.expiry, 36)
	}
	return string(b)
}

func (s *search) legal(done uint64, now int64, held []holding, token int64) bool {
	first := int64(forever)
	left := false
	for n, p := range s.ps {
		if done&(1<<n) == 0 && p.must {
			left = true
			first = min(first, p.hi)
		}
	}
	if !left {
		return true
	}
	if now > first {
		return false
	}
	k := s.key(done, now, held, token)
	if s.seen[k] {
		return false
	}
	s.seen[k] = true
	s.nodes++
	for n, p := range s.ps {
		if done&(1<<n) != 0 || p.lo > first {
			continue
		}
		for at := max(now, p.lo); at <= min(p.hi, first); at++ {
			if next, tok, ok := s.apply(p, at, held, token); ok && s.legal(done|1<<n, at, next, tok) {
				return true
			}
		}
	}
	return false
}

func (s *search) apply(p point, at int64, held []holding, token int64) ([]holding, int64, bool) {
	var alive []holding
	mine := -1
	for _, h := range held {
		// At the very end of a lease both its renewal and the next grant are right.
		if h.expiry > at || h.expiry == at && p.op != history.Acquire {
			if h.t == p.t {
				mine = len(alive)
			}
			alive = append(alive, h)
		}
	}
	switch p.op {
	case history.Acquire:
		h := holding{p.t, forever, p.read, p.count, p.owner}
		if s.leased {
			h.expiry = min(forever, at+p.lease)
		}
		if !s.fits(h, alive) {
			return nil, 0, false
		}
		if s.model.Kind == ModelFenced && p.must {
			if p.token <= token {
				return nil, 0, false
			}
			token = p.token
		}
		return append(alive, h), token, true
	case history.Renew:
		if mine < 0 {
			return nil, 0, false
		}
		alive[mine].expiry = at + p.lease
	case history.Release:
		if mine >= 0 {
			alive = slices.Delete(alive, mine, mine+1)
		}
	}
	return alive, token, true
}

func (s *search) fits(h holding, alive []holding) bool {
	used := h.count
	for _, o := range alive {
		used += o.count
		switch s.model.Kind {
		case ModelPermits:
		case ModelReadWrite:
			if !h.read || !o.read {
				return false
			}
		case ModelReentrant:
			if h.owner != o.owner {
				return false
			}
		default:
			return false
		}
	}
	return s.model.Kind != ModelPermits || used <= s.model.Permits
}

func (m made) bruteLegal() bool {
	s := &search{model: m.model, leased: m.leased, ps: m.points(), seen: map[string]bool{}}
	return s.legal(0, 0, nil, 0)
}
