package checker

import (
	"slices"

	"github.com/lockcheck/lockcheck/checker/history"
)

// forget drops keys on which nothing is open, and tenures that were never
// released but can overlap nobody. It runs when their number has doubled, so
// that each event pays for a constant part of it.
func (d *shard) forget() {
	now := longAgo
	for _, a := range d.opens {
		now = later(now, a.stamp)
	}
	for _, h := range d.holds {
		now = later(now, h.got)
	}
	for id, h := range d.holds {
		if h.releases == 0 && h.asks == 0 && len(h.suspects) == 0 && h.lease != 0 && d.model.expires() &&
			d.endOf(h, h.got).plus(2*h.lease).before(now) && !slices.Contains(h.key.waiting, h) {
			delete(d.holds, id)
		}
	}
	for name, k := range d.keys {
		k.active = slices.DeleteFunc(k.active, func(h *hold) bool { return d.cannotHold(h, now) })
		if len(k.opens) > 0 || len(k.active) > 0 || len(k.waiting) > 0 || k.last != nil && (d.holds[k.last.id] == k.last || !d.cannotHold(k.last, now)) {
			continue
		}
		if k.top != 0 {
			d.tokens[name] = k.top
		}
		delete(d.keys, name)
	}
	d.limit = 2*(len(d.keys)+len(d.holds)) + 1024
}

// strike ends the tenures that a fault, the end of a process or a shutdown may
// have ended. A grant that comes while a fault may be taking keys binds nobody.
func (d *shard) strike(o *op) {
	e := o.fault
	var f *Fault
	switch {
	case o.what == history.Shutdown && o.kind == history.Invoke:
		f = &Fault{Name: "kill", Targets: []string{e.Node}}
	case o.what == history.Exit:
		f = &Fault{Name: "kill", Targets: []string{e.Node}}
	case o.what == history.Fault && e.Phase == history.Start:
		f = newFault(e, o.stamp)
		d.down = append(d.down, f)
	case o.what == history.Fault && e.Phase == history.End:
		d.down = slices.DeleteFunc(d.down, func(f *Fault) bool { return f.ID == e.ID })
		return
	default:
		return
	}
	for _, h := range d.holds {
		if h.struck(f) {
			m := o.stamp
			if o.what == history.Exit {
				m = h.sure // it came some time after its last word
			}
			d.end(h, m)
		}
	}
	for _, a := range d.opens {
		a.struck = append(a.struck, f)
	}
}

func (h *hold) struck(f *Fault) bool {
	t := h.tenure()
	f.End = never
	return f.aimedAt(t) || f.takes(t, t.Session)
}

func (h *hold) doubled(f *Fault) bool { return f.copies(h.tenure()) }

// tenure is what faults need to know of it.
func (h *hold) tenure() *Tenure {
	return &Tenure{Node: h.node, Key: h.key.name, Session: h.lease == 0, Invoke: h.asked, Return: h.got}
}

// striking says whether a fault that has not healed, or that came while the
// acquisition was open, does that.
func (d *shard) striking(a *open, does func(*Fault) bool) bool {
	return slices.ContainsFunc(a.struck, does) || slices.ContainsFunc(d.down, does)
}
