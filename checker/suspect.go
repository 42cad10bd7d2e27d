package checker

import (
	"fmt"
)

// suspect is a violation that a later event may still undo, by showing that one
// of its tenures may have been over by the moment.
type suspect struct {
	f     Finding
	last  *hold // whose grant was wrong
	waits int   // tenures that have not confirmed it yet
	void  bool
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
