package checker

import (
	"fmt"
	"slices"
)

// certain checks a grant of the models mutex, owner, permits, rw and reentrant
// against whatever else surely holds at its return.
//
// Proof, without expiry. H = [a2, r1], from the return of an acquisition to the
// invocation of the first release that may have had an effect, lies within the
// tenure wherever its two points are put. So if the certain holds exceed what
// the lock allows at an instant, no linearization exists. If they never do, put
// every grant at its a2 and every release that may have had an effect at its
// r1: the state then follows the certain holds, is legal at every instant, and
// each point lies within its operation. Acquisitions of unknown outcome are left
// out: one that never took effect constrains nobody. The sum rises only at an
// a2, so that each grant is looked at once, in the order in which events come.
//
// With leases a hold is cut, ε early, where its lease may have ended; what is
// found is still certain, what is not found is no proof: see prove.
//
// Counter-example to taking it that a grant holds when its reply comes: a lease
// of 3 is asked for at 5, granted at once, and answered at 9; another is granted
// at 8.
func (d *shard) certain(h *hold) {
	k := h.key
	k.active = slices.DeleteFunc(k.active, func(i *hold) bool { return d.cannotHold(i, h.got) })
	var met []*hold
	sum := h.count
	for _, i := range k.active {
		if d.model.Kind == ModelOwner && i.got.before(h.asked) {
			i.succeeded = true
		}
		if d.excludes(i, h) && d.held(i, h.got) {
			met, sum = append(met, i), sum+i.count
		}
	}
	k.active = append(k.active, h)
	if !h.got.before(h.cut) {
		return // taken before its reply
	}
	accused := false
	if !h.got.before(d.endOf(h, h.asked)) {
		// Its lease may have been over before its reply came: it holds nothing surely.
	} else if d.model.Kind == ModelPermits {
		if accused = int(sum) > d.model.Permits; accused {
			d.crowded(h, met, fmt.Sprintf("%d of %d permits of %q were held by %s and %s at %s", sum, d.model.Permits, k.name, names(met), h.id, Clock(h.got.Time)))
		}
	} else if accused = len(met) > 0; accused {
		d.crowded(h, met, fmt.Sprintf("%s surely held %q when %s was granted it at %s", names(met), k.name, h.id, Clock(h.got.Time)))
	}
	if d.model.expires() {
		d.prove(h, accused)
	}
}

// crowded reports that h was granted what the others surely held. In the model
// mutex a tenure whose release is open did so only if that release fails.
func (d *shard) crowded(h *hold, met []*hold, message string) {
	f := Finding{Kind: Overlap, Rule: "certain", Level: Service, Key: h.key.name, Message: message}
	for _, i := range append(met, h) {
		f.Tenures, f.Events = append(f.Tenures, i.id), append(f.Events, i.got.Index)
	}
	if d.model.Kind == ModelMutex {
		for _, i := range met {
			f.Tenures, f.Events = []string{i.id, h.id}, []int64{i.got.Index, h.got.Index}
			f.Message = fmt.Sprintf("%s surely held %q when %s was granted it at %s", i.id, h.key.name, h.id, Clock(h.got.Time))
			d.suspect(f, h, i)
		}
		return
	}
	d.suspect(f, h, append(met, h)...)
}

// held says whether a tenure surely held at the moment, or will turn out to
// have if its release fails.
func (d *shard) held(i *hold, m Moment) bool {
	return d.model.Kind == ModelMutex || m.before(d.endOf(i, i.asked))
}

// cannotHold says whether a tenure is over for good.
func (d *shard) cannotHold(i *hold, now Moment) bool {
	if d.model.Kind == ModelMutex {
		return i.released
	}
	return i.asks == 0 && i.releases == 0 && !now.before(d.endOf(i, i.asked)) && len(i.suspects) == 0
}

// excludes says whether two tenures must not be at once.
func (d *shard) excludes(i, j *hold) bool {
	switch d.model.Kind {
	case ModelReadWrite:
		return !i.read || !j.read
	case ModelReentrant:
		return i.owner == "" || i.owner != j.owner
	}
	return true
}

// endOf is the earliest end of a tenure that was granted at the moment: see
// record.earliestEnd.
func (d *shard) endOf(h *hold, g Moment) Moment {
	if h.lease == 0 || !d.model.expires() {
		return h.cut
	}
	if scattered(d.header, h.token) {
		g = h.asked
	}
	if len(h.renewals) == 0 && h.base == nil {
		return earlier(g.plus(max(0, h.lease-d.eps(h.lease))), h.cut)
	}
	end, _ := d.alive(h, g)
	return earlier(end, h.cut)
}

// alive replays the renewals that are kept.
func (d *shard) alive(h *hold, g Moment) (end Moment, revived int) {
	if h.base != nil {
		return alive(at(max(h.base.lo, g.Time)), at(h.base.hi), h.base.lease, h.renewals, d.eps)
	}
	return alive(g, h.got, h.lease, h.renewals, d.eps)
}

// placeOne places a grant after the last one: see chain.
func (d *shard) placeOne(h *hold) {
	k := h.key
	if !h.got.before(h.cut) {
		return // taken before its reply
	}
	former := k.last
	if former != nil {
		former.next = h
		former.succeeded = former.succeeded || former.got.before(h.asked) || d.model.Kind == ModelFenced && h.token > former.token
		k.chain.end = d.endOf(former, former.placedAt)
	}
	if d.model.Kind == ModelLease {
		k.active = append(slices.DeleteFunc(k.active, func(i *hold) bool { return d.cannotHold(i, h.got) }), h)
	}
	k.last = h
	if d.placeAfter(&k.chain, h) {
		return
	}
	d.unplaced(former, h, k.chain)
	if !h.doubted() {
		k.chain.members, k.chain.slow = append(k.chain.members[:0], h.id), h.slow()
	}
}

// replace places what was placed after a tenure again, because its end is known
// better: a renewal that was open when the next was granted was answered ok, so
// that it was not over; or refused, so that it may have been.
func (d *shard) replace(h *hold) {
	c := chain{end: h.placedAt, members: []string{h.id}, slow: h.slow()}
	if h.got.before(h.cut) { // else it was taken before its reply
		c.end = d.endOf(h, h.placedAt)
	}
	for former := h; former.next != nil; former = former.next {
		n := former.next
		if n.wrong != nil {
			c.members = append(c.members, n.id)
			if n.wrong.f.Certainty != "" && d.direct(former, n) != nil {
				n.wrong.void = true // what was a doubt is certain now
				d.unplaced(former, n, c)
			}
			c.end = longAgo
		} else if !d.placeAfter(&c, n) {
			d.unplaced(former, n, c)
		} else {
			continue
		}
		c.end = d.endOf(n, n.placedAt)
		if !n.doubted() {
			c.members, c.slow = []string{n.id}, n.slow()
		}
	}
}

// placeAfter places a grant and says whether it could be.
func (d *shard) placeAfter(c *chain, n *hold) bool {
	g, ok := c.place(stay{n.id, n.asked, n.got, n.slow()})
	if ok {
		n.placedAt = g
		c.end = d.endOf(n, g)
	}
	return ok
}

// unplaced reports that h cannot be placed after the one before it.
func (d *shard) unplaced(former, h *hold, c chain) {
	k := h.key
	h.placedAt = h.got
	f := Finding{Kind: Overlap, Rule: "chain", Level: Service, Key: k.name, Tenures: slices.Clone(c.members), Events: []int64{former.got.Index, h.got.Index},
		Message: fmt.Sprintf("%s was granted %q at %s, before %s can have been over (%s)", h.id, k.name, Clock(h.got.Time), former.id, Clock(c.end.Time))}
	if i := d.direct(former, h); i != nil && c.slow {
		f.Tenures, f.Events = []string{i.id, h.id}, []int64{i.got.Index, h.got.Index}
		f.Message = fmt.Sprintf("%s surely held %q when %s was granted it at %s", i.id, k.name, h.id, Clock(h.got.Time))
	} else if d.model.Kind == ModelLease && c.slow {
		f.Certainty = "an acquisition took longer than its lease, and there are no tokens to tell the order"
		h.placedAt = h.asked // so that what follows rests on nothing but its certain hold
	}
	h.wrong = d.suspect(f, h, append(d.known(f.Tenures), h)...)
}

// direct is a tenure that surely held when h was answered and surely held, too:
// no order, and no slow tenure between the two, explains that.
func (d *shard) direct(former, h *hold) *hold {
	if d.model.Kind != ModelLease || !h.got.before(d.endOf(h, h.asked)) {
		return nil // it may have been over before its reply came
	}
	holds := func(i *hold) bool { return i != h && d.held(i, h.got) && i.got.before(h.got) }
	if holds(former) {
		return former
	}
	if n := slices.IndexFunc(h.key.active, holds); n >= 0 {
		return h.key.active[n]
	}
	return nil
}

// known are those of the tenures that have not been forgotten, without the
// last.
func (d *shard) known(ids []string) []*hold {
	var out []*hold
	for _, id := range ids[:len(ids)-1] {
		if h := d.holds[id]; h != nil {
			out = append(out, h)
		}
	}
	return out
}

// slow says whether the acquisition took longer than its lease.
func (h *hold) slow() bool { return h.lease != 0 && h.got.Time-h.asked.Time >= int64(h.lease) }

// place places what no acquisition that is still open can come before: one that
// was asked for after a return has a higher token, or breaks judgeTokens' rule.
func (d *shard) place(k *keyState, all bool) {
	for len(k.waiting) > 0 {
		h := k.waiting[0]
		if !all && len(k.opens) > 0 && k.opens[0].stamp.before(h.got) {
			return
		}
		k.waiting = slices.Delete(k.waiting, 0, 1)
		if h.token > k.placed || k.last == nil {
			k.placed = h.token
			d.placeOne(h)
		}
	}
}

// checkToken compares the token of a grant with those granted before it was
// asked for, and with those that wait beside it.
func (d *shard) checkToken(h *hold, a *open) {
	f := Finding{Kind: Fencing, Level: Service, Key: h.key.name, Tenures: []string{h.id}, Events: []int64{h.got.Index}}
	switch {
	case h.token <= a.top:
		f.Rule = "token-order"
		f.Message = fmt.Sprintf("%s got token %d of %q although token %d had been granted before it was asked for", h.id, h.token, h.key.name, a.top)
	case h.token == h.key.placed || slices.ContainsFunc(h.key.waiting, func(w *hold) bool { return w.token == h.token }):
		f.Rule = "token-repeated"
		f.Message = fmt.Sprintf("%s got token %d of %q, which another had got", h.id, h.token, h.key.name)
	default:
		return
	}
	d.report.report(f)
}
