package checker

import (
	"fmt"
	"slices"
)

// stretch is where a tenure was put, and what of the lock it takes there.
type stretch struct {
	from, to Moment
	count    int32
}

// room finds the earliest grant between two moments such that, up to the end
// that follows from it, the others never take more than is free.
//
// Only the first moment and the ends of others need be tried: between two of
// those nothing becomes free. Of a stretch only its start and the starts of
// others in it need be looked at: elsewhere the sum does not rise.
func room(from, to Moment, end func(Moment) Moment, others []stretch, free int32) (g Moment, ok bool) {
	tries := []Moment{from}
	for _, o := range others {
		if from.before(o.to) && !to.before(o.to) {
			tries = append(tries, o.to)
		}
	}
	slices.SortFunc(tries, order)
	for _, g := range tries {
		if fitsAt(stretch{g, end(g), 0}, others, free) {
			return g, true
		}
	}
	return to, false
}

func fitsAt(s stretch, others []stretch, free int32) bool {
	taken := func(m Moment) (sum int32) {
		for _, o := range others {
			if !m.before(o.from) && m.before(o.to) {
				sum += o.count
			}
		}
		return sum
	}
	if taken(s.from) > free {
		return false
	}
	return !slices.ContainsFunc(others, func(o stretch) bool { return s.from.before(o.from) && o.from.before(s.to) && taken(o.from) > free })
}

// judgeRoom puts the tenures of a key that may share it one beside the other,
// in the order of their returns; where that fails the verdict is in doubt. See
// prove, which does the same while the history is read.
func (r *record) judgeRoom(v *Verdict, group []*Tenure) {
	oldest := make([]Moment, len(group)) // of what is asked for from each on
	for n := len(group) - 1; n >= 0; n-- {
		if oldest[n] = group[n].Invoke; n+1 < len(group) {
			oldest[n] = earlier(oldest[n], oldest[n+1])
		}
	}
	type put struct {
		t *Tenure
		stretch
	}
	var all []put
	for n, t := range group {
		if t.taken() || t.Session && t.Paper == nil {
			continue
		}
		all = slices.DeleteFunc(all, func(p put) bool { return !oldest[n].before(p.to) })
		var others []stretch
		leased := !t.Session
		for _, p := range all {
			if r.header.Capacity > 1 || r.exclude(p.t, t) {
				others = append(others, p.stretch)
				leased = leased || !p.t.Session
			}
		}
		free := int32(max(0, r.header.Capacity-t.Count))
		g, ok := room(t.Invoke, t.Return, func(g Moment) Moment { return r.earliestEnd(t, g) }, others, free)
		if !ok && leased {
			v.find(Finding{Kind: Overlap, Rule: "unproven", Level: Service, Key: t.Key, Tenures: []string{t.ID}, Events: []int64{t.Return.Index}, Certainty: inNoOtherOrder,
				Message: fmt.Sprintf("%s was granted %q at %s, where nothing proves that there was room for it", t.ID, t.Key, Clock(t.Return.Time))})
			return
		}
		all = append(all, put{t, stretch{g, r.earliestEnd(t, g), int32(t.Count)}})
	}
}

const inNoOtherOrder = "leases beside each other are put in the order of their returns, and in no other"

// prove puts a grant of the models permits, rw and reentrant where there is room
// for it beside those that were put before, each lease taken ε shorter than
// granted. If all can be put, that is a linearization: every grant lies between
// its acquisition's two ends, every end at or before its release, and the lock
// never gives more than it has. If one cannot, a better order of the others may
// still make room: nobody searches for it, and the verdict is in doubt. Without
// leases there is nothing to prove: see certain.
//
// What was over before anything was asked for that is still open, or that was
// granted just now, is in nobody's way any more.
//
// Counter-example to passing what certain does not accuse: permits:2, leases of
// 10, three grants of which the first two were answered late. Every instant can
// be explained, and all three cannot.
func (d *shard) prove(h *hold, accused bool) {
	k := h.key
	oldest := h.asked
	if len(k.opens) > 0 {
		oldest = earlier(oldest, k.opens[0].stamp)
	}
	k.put = slices.DeleteFunc(k.put, func(i *hold) bool {
		past := !oldest.before(d.endOf(i, i.placedAt))
		i.overtaken = i.overtaken || past
		return past
	})
	var others []stretch
	var met []*hold
	leased := h.lease != 0
	for _, i := range k.put {
		if d.excludes(i, h) {
			met, others = append(met, i), append(others, stretch{i.placedAt, d.endOf(i, i.placedAt), i.count})
			leased = leased || i.lease != 0
		}
	}
	free := int32(0)
	if d.model.Kind == ModelPermits {
		free = int32(d.model.Permits) - h.count
	}
	from := h.asked
	if from == longAgo {
		from = h.got
	}
	g, ok := room(from, h.got, func(g Moment) Moment { return d.endOf(h, g) }, others, free)
	h.placedAt = g
	k.put = append(k.put, h)
	for n, i := range met {
		i.overtaken = i.overtaken || !h.got.before(others[n].to)
		h.overtaken = h.overtaken || !others[n].from.before(d.endOf(h, g))
	}
	if !ok && leased && !accused {
		d.unproven(h, fmt.Sprintf("%s was granted %q at %s, where nothing proves that there was room for it", h.id, k.name, Clock(h.got.Time)))
	}
}

func (d *shard) unproven(h *hold, message string) {
	d.report.report(Finding{Kind: Overlap, Rule: "unproven", Level: Service, Key: h.key.name, Tenures: []string{h.id}, Events: []int64{h.got.Index}, Message: message,
		Certainty: inNoOtherOrder})
}
