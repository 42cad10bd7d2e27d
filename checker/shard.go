package checker

import (
	"slices"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// shard is the keys that one goroutine checks.
type shard struct {
	model  Model
	header *history.Header
	report *reporter
	in     chan []op
	used   chan []op // batches to be filled again
	losses bool      // loss is signalled, perhaps after the next grant

	keys    map[string]*keyState
	holds   map[string]*hold // by tenure, until released
	opens   map[string]*open // acquisitions, by process
	tokens  map[string]int64 // the highest of keys that were forgotten
	down    []*Fault         // faults that are taking keys right now
	idle    []*open          // to be used again
	limit   int              // keys and holds at which to look for what can be forgotten
	granted int
}

// open is an open acquisition.
type open struct {
	stamp  Moment
	key    *keyState
	owner  string
	read   bool
	count  int32
	top    int64 // the highest token that was granted before it was asked for
	closed bool
	struck []*Fault // faults that began while it was open
}

// keyState is what is known of a key on which something is open.
type keyState struct {
	name    string
	opens   []*open // in the order of their invocation, closed ones dropped from the front
	active  []*hold // that surely hold
	put     []*hold // where prove has put them, while they can be in the way
	waiting []*hold // granted, to be placed in the order of their tokens
	last    *hold   // placed last
	chain   chain
	placed  int64 // its token
	top     int64 // highest token
}

// hold is a tenure.
type hold struct {
	id, owner, node string
	key             *keyState
	asked, got      Moment
	cut             Moment // r1: the first thing that may have ended it; never so far
	lease           time.Duration
	token           int64
	count           int32
	read            bool

	placedAt   Moment   // g
	next       *hold    // placed after it
	wrong      *suspect // it could not be placed
	overtaken  bool     // another was put where its lease seemed to be over
	gone       bool     // its release was answered: nothing new will be known of it
	succeeded  bool     // another was granted after it
	released   bool     // its release was answered ok
	releases   int8     // open
	late       bool     // a release that is open was called after it was succeeded
	asks       int8     // open questions: renew, held, write
	askedFirst Moment   // the first of them
	sure       Moment   // the last question that was answered ok was asked then
	renewals   []renewal
	base       *window // of the last ok renewal that was forgotten
	suspects   []*suspect
	blind      bool // it was renewed at a moment that nobody knows
	copied     bool // a copy of its acquisition may have been on its way
}

func newShard(h *history.Header, m Model, r *reporter) *shard {
	return &shard{model: m, header: h, report: r, losses: h.Claimed(lockspec.LossSignal), limit: 1024,
		keys: map[string]*keyState{}, holds: map[string]*hold{}, opens: map[string]*open{}, tokens: map[string]int64{}}
}

func (d *shard) run() {
	for batch := range d.in {
		for i := range batch {
			d.apply(&batch[i])
		}
		select {
		case d.used <- batch:
		default:
		}
	}
}

func (d *shard) key(name string) *keyState {
	k := d.keys[name]
	if k == nil {
		k = &keyState{name: name, top: d.tokens[name], placed: d.tokens[name], chain: chain{end: longAgo}}
		d.keys[name] = k
	}
	return k
}

// apply takes the next event. What can be forgotten is looked for between two
// events: within one, what it is about is not yet where forget would see it.
func (d *shard) apply(o *op) {
	if len(d.keys)+len(d.holds) > d.limit {
		d.forget()
	}
	switch o.what {
	case history.Acquire:
		d.acquire(o)
	case history.Late:
		if o.outcome == lockspec.OK && o.tenure != "" {
			d.grant(o, &open{stamp: longAgo, key: d.key(o.key), owner: o.owner, count: 1})
		}
	case history.Fault, history.Exit, history.Shutdown:
		d.strike(o)
	default:
		if h := d.holds[o.tenure]; h != nil {
			d.call(h, o)
		}
	}
}

func (d *shard) acquire(o *op) {
	if o.kind == history.Invoke {
		k := d.key(o.key)
		a := d.open()
		*a = open{stamp: o.stamp, key: k, owner: o.owner, read: o.read, count: o.count, top: k.top}
		d.opens[o.process] = a
		k.opens = append(k.opens, a)
		return
	}
	a := d.opens[o.process]
	if a == nil {
		return
	}
	delete(d.opens, o.process)
	k := a.key
	a.closed = true
	done := 0
	for done < len(k.opens) && k.opens[done].closed {
		done++
	}
	d.idle = append(d.idle, k.opens[:done]...)
	k.opens = slices.Delete(k.opens, 0, done)
	if o.kind == history.OK {
		d.grant(o, a)
	}
	d.place(k, false)
}

// open is one that was used before, if there is any.
func (d *shard) open() *open {
	n := len(d.idle)
	if n == 0 {
		return new(open)
	}
	a := d.idle[n-1]
	d.idle = d.idle[:n-1]
	return a
}

// grant starts a tenure.
func (d *shard) grant(o *op, a *open) {
	d.granted++
	h := &hold{id: o.tenure, owner: a.owner, node: o.node, key: a.key, asked: a.stamp, got: o.stamp, cut: never, lease: time.Duration(o.lease), token: o.token,
		count: max(a.count, o.count), read: a.read || o.read, sure: o.stamp, askedFirst: never}
	if o.sent != 0 {
		h.asked = later(h.asked, at(o.sent))
	}
	if len(a.struck)+len(d.down) > 0 {
		if d.striking(a, h.struck) {
			h.cut = h.got
		}
		h.copied = d.striking(a, h.doubled)
	}
	if o.lease != 0 && !o.left && d.header.Claimed(lockspec.SessionLease) {
		h.cut = h.got // what was left of the shared lease nobody told
	}
	d.holds[h.id] = h
	switch {
	case d.model.Kind == ModelFenced && h.token != 0:
		d.checkToken(h, a)
		k := h.key
		at, _ := slices.BinarySearchFunc(k.waiting, h.token, func(w *hold, token int64) int { return int(min(1, max(-1, w.token-token))) })
		k.waiting = slices.Insert(k.waiting, at, h)
		k.top = max(k.top, h.token)
	case d.model.chained():
		d.placeOne(h)
	default:
		d.certain(h)
	}
}

// drop forgets a tenure that can overlap nobody any more.
func (d *shard) drop(h *hold) {
	delete(d.holds, h.id)
	k := h.key
	if i := slices.Index(k.active, h); i >= 0 {
		k.active = slices.Delete(k.active, i, i+1)
	}
	h.gone = true
}

func (d *shard) eps(lease time.Duration) time.Duration {
	return d.header.Eps + time.Duration((0.001+d.header.Bounds.ClockRate)*float64(lease))
}

func (d *shard) finish() {
	for _, k := range d.keys {
		d.place(k, true)
	}
	for _, h := range d.holds {
		if d.model.Kind != ModelMutex || h.releases == 0 { // an open release may have an effect
			d.accuseAll(h)
		}
	}
}

func names(holds []*hold) string {
	var out []string
	for _, h := range holds {
		out = append(out, h.id)
	}
	return strings.Join(out, ", ")
}
