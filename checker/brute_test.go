package checker

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// A made-up history: every event at a time of its own, index and time the same.
type made struct {
	model  Model
	leased bool
	events []history.Event
}

func (m made) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, m.model)
	for _, e := range m.events {
		fmt.Fprintf(&b, "%d %s %s %s %s %s lease=%d ask=%d token=%d count=%d mode=%s owner=%s\n", e.Time, e.Process, e.Op, e.Type, e.Error, e.Tenure, e.Lease, e.Ask, e.Token, e.Count, e.Mode, e.Owner)
	}
	return b.String()
}

// maker makes histories by driving a small lock that is right, or sometimes not.
type maker struct {
	rng    *rand.Rand
	model  Model
	wrong  float64 // how often the lock does not look
	leased bool
	hot    bool // many ask for what is held, and nearly all are answered
	lease  int64
	events []history.Event
	procs  []*actor
	grants []*grant
	tokens int64
	now    int64
	names  int
}

type grant struct {
	owner  string
	count  int
	read   bool
	expiry int64
	alive  bool
}

type actor struct {
	name, owner string
	op          history.Op // open
	landed      bool
	result      bool
	held        *grant
	tenure      string
	token       int64
	read        bool
	count       int
}

// someWrong is how wrong the lock of a history is to be, such that half of the
// histories are illegal.
func someWrong(rng *rand.Rand) float64 { return []float64{0, 0.5, 1, 1, 1}[rng.IntN(5)] }

func makeHistory(rng *rand.Rand, m Model, wrong float64) made {
	return makeLeased(rng, m, wrong, m.chained())
}

// makeLeased makes histories of permits, rw and reentrant whose leases end, too.
func makeLeased(rng *rand.Rand, m Model, wrong float64, leased bool) made {
	k := &maker{rng: rng, model: m, leased: leased, wrong: wrong, hot: wrong == 1 && rng.IntN(10) > 0, lease: int64(3 + rng.IntN(5))}
	for n := range 2 + rng.IntN(2) {
		k.procs = append(k.procs, &actor{owner: fmt.Sprintf("o%d", n%2+1)})
		k.rename(k.procs[n])
	}
	if m.Kind != ModelReentrant {
		for n, p := range k.procs {
			p.owner = fmt.Sprintf("o%d", n+1)
		}
	}
	steps := 8 + rng.IntN(12)
	for range steps * 3 {
		if k.now >= int64(steps) {
			break
		}
		k.step(k.pick())
	}
	return made{m, leased, k.events}
}

// pick prefers, where it is hot, whoever does not hold yet.
func (k *maker) pick() *actor {
	a := k.procs[k.rng.IntN(len(k.procs))]
	for tries := 0; k.hot && a.tenure != "" && tries < 2; tries++ {
		a = k.procs[k.rng.IntN(len(k.procs))]
	}
	return a
}

func (k *maker) rename(a *actor) { k.names++; a.name = fmt.Sprintf("p%d", k.names) }

func (k *maker) record(a *actor, typ history.Type, e history.Event) {
	e.Index, e.Time, e.Type, e.Process, e.Owner, e.Key = k.now, k.now, typ, a.name, a.owner, "k"
	if e.Op != history.Acquire || typ == history.OK {
		e.Tenure = a.tenure
	}
	k.events = append(k.events, e)
	k.now++
}

func (k *maker) step(a *actor) {
	switch {
	case a.op == "":
		k.invoke(a)
	case !a.landed && k.rng.IntN(3) > 0:
		k.land(a)
	case a.landed || k.rng.IntN(3) == 0 && !k.hot:
		k.reply(a)
	}
}

func (k *maker) invoke(a *actor) {
	a.landed, a.result = false, false
	switch {
	case a.tenure == "":
		a.op = history.Acquire
		a.read, a.count = k.model.Kind == ModelReadWrite && k.rng.IntN(2) == 0, 1
		if k.model.Kind == ModelPermits {
			a.count = 1 + k.rng.IntN(k.model.Permits)
			if k.hot {
				a.count = max(a.count, 1+k.rng.IntN(k.model.Permits))
			}
		}
		e := history.Event{Op: a.op, Count: a.count}
		if a.read {
			e.Mode = lockspec.Read
		}
		k.record(a, history.Invoke, e)
	case k.leased && k.rng.IntN(3) == 0:
		a.op = history.Renew
		k.record(a, history.Invoke, history.Event{Op: a.op, Ask: time.Duration(k.lease)})
	default:
		a.op = history.Release
		k.record(a, history.Invoke, history.Event{Op: a.op})
	}
}

// free says whether the lock may be granted.
func (k *maker) free(a *actor) bool {
	used := 0
	for _, g := range k.grants {
		if !g.alive || k.leased && g.expiry <= k.now {
			continue
		}
		switch k.model.Kind {
		case ModelPermits:
			used += g.count
		case ModelReadWrite:
			if !g.read || !a.read {
				return false
			}
		case ModelReentrant:
			if g.owner != a.owner {
				return false
			}
		default:
			return false
		}
	}
	return k.model.Kind != ModelPermits || used+a.count <= k.model.Permits
}

func (k *maker) land(a *actor) {
	a.landed = true
	switch a.op {
	case history.Acquire:
		if a.result = k.free(a) || k.rng.Float64() < k.wrong; a.result {
			k.tokens++
			a.token = k.tokens
			if k.rng.Float64() < k.wrong/2 {
				a.token = max(1, k.tokens-2)
			}
			a.held = &grant{owner: a.owner, count: a.count, read: a.read, expiry: k.now + k.lease, alive: true}
			k.grants = append(k.grants, a.held)
		}
	case history.Renew:
		if a.result = a.held.alive && a.held.expiry > k.now || k.rng.Float64() < k.wrong; a.result {
			a.held.expiry = k.now + k.lease
		}
	case history.Release:
		a.result = k.rng.IntN(5) > 0
		if a.result {
			a.held.alive = false
		}
	}
}

func (k *maker) reply(a *actor) {
	e := history.Event{Op: a.op, Count: a.count}
	typ := history.OK
	unknown := 8
	if k.hot {
		unknown = 32
	}
	if !a.landed || k.rng.IntN(unknown) == 0 {
		typ, e.Error = history.Info, lockspec.Unavailable
	} else if !a.result {
		typ, e.Error = history.Fail, lockspec.Busy
		if a.op != history.Acquire {
			e.Error = lockspec.NotHeld
		}
	}
	if k.leased {
		e.Lease = time.Duration(k.lease)
	}
	if a.read {
		e.Mode = lockspec.Read
	}
	op := a.op
	a.op = ""
	if op == history.Acquire && typ == history.OK {
		a.tenure = fmt.Sprintf("t%d", k.now)
		e.Token = a.token
	}
	k.record(a, typ, e)
	switch {
	case op == history.Acquire && typ == history.Info:
		k.rename(a)
	case op == history.Release && (k.model.Kind != ModelMutex || typ != history.Fail), op == history.Renew && typ == history.Fail:
		a.tenure = ""
	}
}

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

func (m made) checkerLegal() *Summary {
	h := &history.Header{Class: lockspec.Leased}
	s := NewStream(h, m.model, &StreamOptions{Workers: 1})
	for i := range m.events {
		s.Add(&m.events[i])
	}
	return s.Close()
}

func allModels() []Model {
	return []Model{{ModelMutex, 1}, {ModelOwner, 1}, {ModelLease, 1}, {ModelFenced, 1}, {ModelPermits, 2}, {ModelPermits, 3}, {ModelReadWrite, 1}, {ModelReentrant, 1}}
}

// histories is how many are made; more by LOCKCHECK_HISTORIES.
func histories(t testing.TB, usual int) int {
	if n, err := strconv.Atoi(os.Getenv("LOCKCHECK_HISTORIES")); err == nil {
		return n
	}
	if testing.Short() {
		return usual / 10
	}
	return usual
}

// TestBruteForce compares the checks without search with all ways to put the
// points, on histories with unknown outcomes, slow replies and violations.
func TestBruteForce(t *testing.T) {
	n := histories(t, 60_000)
	var mu sync.Mutex
	count := map[string]int{}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			local := map[string]int{}
			for i := range n / 2 {
				if t.Failed() {
					break
				}
				models := allModels()
				m := makeHistory(rng, models[i%len(models)], someWrong(rng))
				local[agree(t, m)]++
			}
			mu.Lock()
			defer mu.Unlock()
			for k, v := range local {
				count[k] += v
			}
		})
	}
	wg.Wait()
	t.Log(count)
}

func agree(t *testing.T, m made) string {
	legal := m.bruteLegal()
	sum := m.checkerLegal()
	switch {
	case m.model.Kind == ModelLease && sum.Doubts > 0 && !slices.ContainsFunc(sum.Findings, func(f Finding) bool { return f.Kind != Ownership && f.Certainty == Certain }):
		return string(m.model.Kind) + " inconclusive"
	case legal != sum.linearizable():
		t.Errorf("all linearizations: legal is %v; the checker says %s %v\n%s", legal, sum.Outcome, sum.Findings, m)
	}
	return fmt.Sprintf("%s %v", m.model.Kind, legal)
}

// TestNeverGuesses: permits, readers and writers, and reentrant owners under
// leases: legal is never accused, illegal never passes; what cannot be proven is
// in doubt, and that is rare.
func TestNeverGuesses(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	models := []Model{{ModelPermits, 2}, {ModelPermits, 3}, {ModelReadWrite, 1}, {ModelReentrant, 1}}
	count := map[string]int{}
	for i := range histories(t, 20_000) {
		m := makeLeased(rng, models[i%len(models)], someWrong(rng), true)
		legal, sum := m.bruteLegal(), m.checkerLegal()
		sure := slices.ContainsFunc(sum.Findings, func(f Finding) bool { return f.Kind != Ownership && f.Certainty == Certain })
		if legal && sure || !legal && sum.linearizable() {
			t.Fatalf("all linearizations: legal is %v; the checker says %s %v\n%s", legal, sum.Outcome, sum.Findings, m)
		}
		if !sure && sum.Doubts > 0 {
			count[fmt.Sprintf("%s %v, in doubt", m.model.Kind, legal)]++
		} else {
			count[fmt.Sprintf("%s %v", m.model.Kind, legal)]++
		}
	}
	t.Log(count)
}

// linearizable leaves out what was answered to former holders: an ok to a
// release of what was no longer held changes nothing.
func (s *Summary) linearizable() bool {
	return !slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Kind != Ownership })
}
