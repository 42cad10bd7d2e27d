package checker

import (
	"fmt"
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
}

// suspect is a violation that a later event may still undo, by showing that one
// of its tenures may have been over by the moment.
type suspect struct {
	f     Finding
	last  *hold // whose grant was wrong
	waits int   // tenures that have not confirmed it yet
	void  bool
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
	if len(a.struck)+len(d.down) > 0 && d.striking(h, a) {
		h.cut = h.got
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

// call is an operation on, or an event of, a tenure.
func (d *shard) call(h *hold, o *op) {
	switch {
	case o.what == history.Lost:
		d.lost(h, o)
	case o.what == history.Renewed:
		if o.sent != 0 {
			h.renewals = append(h.renewals, renewal{invoke: at(o.sent), reply: o.stamp, sent: o.sent, lease: time.Duration(o.lease), ok: true, own: true})
			d.renewed(h)
		} else {
			h.blind = true
		}
	case o.what == history.Release && o.kind == history.Invoke:
		d.releasing(h, o)
	case o.what == history.Release:
		d.releasedAt(h, o)
	case o.kind == history.Invoke:
		if h.asks++; h.asks == 1 {
			h.askedFirst, h.late = o.stamp, h.succeeded
		}
		if o.what == history.Renew {
			h.renewals = append(h.renewals, renewal{invoke: o.stamp, reply: never, lease: time.Duration(o.lease)})
		}
	default:
		d.answered(h, o)
	}
}

// openRenewal is the renewal that is being answered: renewals of the lock's own
// may have been seen since it was asked for. -1: none is.
func (h *hold) openRenewal() int {
	for i := len(h.renewals) - 1; i >= 0; i-- {
		if !h.renewals[i].own && h.renewals[i].reply == never {
			return i
		}
	}
	return -1
}

// answered is the reply to a question: renew, held or write.
func (d *shard) answered(h *hold, o *op) {
	asked := h.askedFirst
	if h.asks--; h.asks <= 0 {
		h.asks, h.askedFirst = 0, never
	}
	switch {
	case o.kind == history.OK:
		h.sure = later(h.sure, asked)
		if i := h.openRenewal(); o.what == history.Renew && i >= 0 {
			if d.model.Kind != ModelMutex && h.late {
				d.ownership(h, o, "renew")
			}
			n := &h.renewals[i]
			n.ok, n.reply, n.sent = true, o.stamp, o.sent
			if o.lease != 0 {
				n.lease = time.Duration(o.lease)
			}
			d.renewed(h)
		}
	case o.outcome == lockspec.Lost || o.outcome == lockspec.NotHeld:
		if i := h.openRenewal(); o.what == history.Renew && i >= 0 {
			h.renewals = slices.Delete(h.renewals, i, i+1)
		}
		if d.model.Kind != ModelMutex {
			d.end(h, asked)
		}
	}
	if h.asks == 0 {
		d.accuse(h)
	}
}

// renewed checks that the last renewal found the lease alive, and forgets what
// can no longer matter: only a few windows back can still be raised.
func (d *shard) renewed(h *hold) {
	if h.lease == 0 || h.blind || !d.model.expires() {
		return
	}
	if _, n := d.alive(h, h.asked); n >= 0 {
		late := h.renewals[n]
		h.renewals = slices.Delete(h.renewals, n, n+1)
		if !d.header.Claimed(lockspec.Revives) {
			d.report.report(Finding{Kind: Renewal, Rule: "revived", Level: Service, Key: h.key.name, Tenures: []string{h.id}, Events: []int64{late.invoke.Index, late.reply.Index},
				Message: fmt.Sprintf("a renewal of %s that was asked for at %s was answered ok although its lease had ended", h.id, Clock(late.invoke.Time))})
		}
	}
	if d.model.chained() {
		d.replace(h)
	} else if h.overtaken {
		d.unproven(h, fmt.Sprintf("%s was renewed although another was granted %q where its lease seemed to be over", h.id, h.key.name))
	}
	h.trim()
}

// mostRenewals is how many renewals of a tenure are kept.
const mostRenewals = 16

// trim forgets the older half of the renewals once there are many. The last one
// of them takes the place of the grant; what was before it has been explained.
// Unknown ones are kept where they may still have shortened the lease.
func (h *hold) trim() {
	if len(h.renewals) < mostRenewals || !h.renewals[mostRenewals/2-1].ok {
		return
	}
	old := h.renewals[:mostRenewals/2]
	last := &old[len(old)-1]
	lo := last.sent
	if lo == 0 {
		lo = last.invoke.Time
	}
	h.base = &window{lo, last.reply.Time, last.lease}
	var kept []renewal
	for _, n := range old {
		if !n.ok && n.lease < last.lease {
			kept = append(kept, n)
		}
	}
	h.renewals = append(kept, h.renewals[mostRenewals/2:]...)
}

func (d *shard) lost(h *hold, o *op) {
	earliest := h.sure
	if o.raised != 0 {
		earliest = at(o.raised)
	}
	if d.model.Kind != ModelMutex {
		d.end(h, earliest)
	}
	d.accuseAll(h)
}

// end notes that the tenure may have been over from the moment on; what it was
// suspected of from then on is void.
func (d *shard) end(h *hold, m Moment) {
	if !m.before(h.cut) {
		return
	}
	h.cut = m
	for _, s := range h.suspects {
		if !s.last.got.before(m) && !s.void {
			s.void, s.last.wrong = true, nil
			if !d.model.chained() && h.lease != 0 && d.model.expires() {
				d.unproven(s.last, fmt.Sprintf("%s was granted %q at %s, when %s may have been over", s.last.id, h.key.name, Clock(s.last.got.Time), h.id))
			}
		}
	}
	if d.model.chained() {
		d.replace(h)
	}
}

// suspect holds a violation back until none of its tenures can turn out to have
// been over by then.
func (d *shard) suspect(f Finding, last *hold, of ...*hold) *suspect {
	s := &suspect{f: f, last: last, waits: len(of)}
	for _, h := range of {
		h.suspects = append(h.suspects, s)
		d.accuse(h)
	}
	return s
}

// doubted says whether the tenure could not be placed, and whether that may
// still be undone: then what comes after it rests on that, too.
func (h *hold) doubted() bool { return h.wrong != nil && h.wrong.waits > 0 }

func (d *shard) accuse(h *hold) {
	if h.gone || d.model.Kind == ModelMutex && h.releases == 0 || h.asks == 0 && !d.losses && d.model.Kind != ModelMutex {
		d.accuseAll(h)
	}
}

// accuseAll confirms what the tenure is suspected of.
func (d *shard) accuseAll(h *hold) {
	for _, s := range h.suspects {
		if s.waits--; s.waits == 0 && !s.void {
			d.report.report(s.f)
		}
	}
	h.suspects = h.suspects[:0]
}

func (d *shard) releasing(h *hold, o *op) {
	h.releases++
	h.late = h.succeeded
	if o.stamp.before(h.cut) {
		h.cut = o.stamp
	}
	if d.model.Kind != ModelMutex {
		d.accuseAll(h) // it surely held until now
	}
}

// releasedAt is the reply to a release. In the model mutex one that failed had
// no effect: its tenure held all the while, and what it was suspected of since
// the release was called is true.
func (d *shard) releasedAt(h *hold, o *op) {
	h.releases--
	if o.kind == history.OK {
		if h.late && d.model.Kind != ModelMutex && !(h.released && d.header.Claimed(lockspec.IdempotentRelease)) {
			d.ownership(h, o, "release")
		}
		h.released = true
	}
	if h.releases > 0 {
		return
	}
	if d.model.Kind == ModelMutex && o.kind == history.Fail && !h.released {
		h.cut = never
		d.accuseAll(h)
		return
	}
	h.suspects = h.suspects[:0]
	d.drop(h)
}

func (d *shard) ownership(h *hold, o *op, what string) {
	d.report.report(Finding{Kind: Ownership, Rule: "ok-after-successor", Level: Service, Key: h.key.name, Tenures: []string{h.id}, Events: []int64{o.stamp.Index},
		Message: fmt.Sprintf("%s was answered ok to a %s although another had been granted %q before it was asked for", h.id, what, h.key.name)})
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
