package checker

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

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
	f := Finding{Kind: Ownership, Rule: "ok-after-successor", Level: Service, Key: h.key.name, Tenures: []string{h.id}, Events: []int64{o.stamp.Index},
		Message: fmt.Sprintf("%s was answered ok to a %s although another had been granted %q before it was asked for", h.id, what, h.key.name)}
	if h.copied {
		f.Certainty = secondCopy
	}
	d.report.report(f)
}
