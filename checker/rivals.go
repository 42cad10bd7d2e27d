package checker

import (
	"slices"
	"sort"

	"github.com/lockcheck/lockcheck/lockspec"
)

// rivals are the attempts at one key, made ready to be asked by each of them
// whether another explains that it was refused. A hot key has ten thousand, and
// each would look at all others.
//
// An attempt explains those that end after it began and begin before it reaches
// no further. So what counts of all that began by a moment is how far they reach
// at most; of the two that reach furthest one is not the asker.
type rivals struct {
	began   []Moment // of the attempts, in order
	any     []pair   // how far the first n reach, for n from 0
	struck  []pair   // the same of what a fault struck
	writers []pair   // the same of those that make readers wait
}

// reach is up to when an attempt explains others.
type reach struct {
	until Moment
	whose *attempt
}

// pair are the two that reach furthest, the furthest first.
type pair [2]reach

// further says whether a is no end before b's: of two at one time, that which no
// index puts before another.
func further(a, b Moment) bool {
	if a.Time == b.Time && a.stamped() != b.stamped() {
		return b.stamped()
	}
	return b.before(a)
}

func (p pair) with(r reach) pair {
	switch {
	case p[0].whose == nil || further(r.until, p[0].until):
		return pair{r, p[0]}
	case p[1].whose == nil || further(r.until, p[1].until):
		return pair{p[0], r}
	}
	return p
}

// other is the furthest that is not a's own.
func (p pair) other(a *attempt) (until Moment, ok bool) {
	for _, r := range p {
		if r.whose != nil && r.whose != a {
			return r.until, true
		}
	}
	return Moment{}, false
}

// rivalsOf prepares the attempts at a key.
func (r *record) rivalsOf(attempts []*attempt) *rivals {
	sorted := slices.Clone(attempts)
	slices.SortStableFunc(sorted, func(a, b *attempt) int { return order(a.invoke, b.invoke) })
	strict := r.header.Claimed(lockspec.StrictTry)
	n := len(sorted)
	v := &rivals{began: make([]Moment, n), any: make([]pair, n+1), struck: make([]pair, n+1), writers: make([]pair, n+1)}
	for i, b := range sorted {
		v.began[i] = b.invoke
		v.any[i+1], v.struck[i+1], v.writers[i+1] = v.any[i], v.struck[i], v.writers[i]
		switch {
		case b.unknown:
			v.any[i+1] = v.any[i].with(reach{never, b})
		case !strict:
			v.any[i+1] = v.any[i].with(reach{b.reply.plus(b.ask + r.eps(b.ask)), b})
		}
		if until, ok := r.ghost(b.node, b.invoke, b.reply, b.ask); ok {
			v.struck[i+1] = v.struck[i].with(reach{until, b})
		}
		if b.mode != lockspec.Read {
			v.writers[i+1] = v.writers[i].with(reach{b.reply, b})
		}
	}
	return v
}

// explain says whether another attempt may be why a was refused.
func (v *rivals) explain(a *attempt) bool {
	n := sort.Search(len(v.began), func(i int) bool { return a.reply.before(v.began[i]) })
	if until, ok := v.any[n].other(a); ok && !until.before(a.invoke) {
		return true
	}
	if until, ok := v.struck[n].other(a); ok && a.invoke.before(until) {
		return true
	}
	if a.mode != lockspec.Read {
		return false
	}
	until, ok := v.writers[n].other(a)
	return ok && !until.before(a.invoke)
}
