package checker

import (
	"fmt"
	"math/rand/v2"
	"strings"
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
