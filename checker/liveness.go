package checker

import (
	"fmt"

	"github.com/lockcheck/lockcheck/lockspec"
)

// judgeTakeover: after its holder was killed, a key must become obtainable
// within the last lease and the takeover bound. A holder that is merely
// stopped is not gone.
//
// The lease counts from the end of the kill: a renewal may have been on its
// way when the process died.
func (r *record) judgeTakeover(v *Verdict) {
	bound := r.header.Bounds.Takeover
	for _, group := range r.byKey() {
		for n, i := range group {
			kill := r.killer(i)
			if kill == nil || i.releasedBefore(kill.End) {
				continue
			}
			next := never
			if n+1 < len(group) {
				next = group[n+1].Return
				if kill.Start.before(next) {
					v.Measures.Takeovers = append(v.Measures.Takeovers, Span{kill.Start, next}.Length())
				}
			}
			if bound == 0 {
				continue
			}
			due := kill.End.plus(i.Lease + bound + r.eps(i.Lease))
			for _, a := range r.attempts {
				if a.key != i.Key || a.outcome != lockspec.Busy || !due.before(a.invoke) || next.before(a.reply) {
					continue
				}
				f := Finding{Kind: Liveness, Rule: "takeover", Level: Service, Key: i.Key, Tenures: []string{i.ID}, Faults: []string{kill.ID},
					Events:  []int64{kill.Start.Index, a.invoke.Index, a.reply.Index},
					Message: fmt.Sprintf("%s was killed at %s; %q was due to be free by %s and was still busy at %s", i.ID, Clock(kill.Start.Time), i.Key, Clock(due.Time), Clock(a.invoke.Time))}
				if r.disturbed(i.Key, kill, a) {
					f.Certainty = "an unknown acquisition or a stall may explain it"
				}
				v.find(f)
				break
			}
		}
	}
}

// killer is the fault that ended the process of a tenure while it held.
func (r *record) killer(t *Tenure) *Fault {
	for _, f := range r.faults {
		if f.killed(t) && t.Return.before(f.Start) && (f.Start.before(t.Believed.To) || f.Start == t.Believed.To) {
			return f
		}
	}
	return nil
}

// releasedBefore says whether a release of the tenure was called by then. One
// that was called of a dead process reached nobody.
func (t *Tenure) releasedBefore(m Moment) bool {
	return len(t.releases) > 0 && t.releases[0].invoke.before(m)
}

// disturbed says whether an acquisition of unknown outcome, or a stall, may be
// why the key was still busy.
func (r *record) disturbed(key string, kill *Fault, late attempt) bool {
	for _, a := range r.attempts {
		if a.key == key && a.unknown && a.invoke.before(late.reply) && kill.Start.before(a.reply) {
			return true
		}
	}
	for _, f := range r.faults {
		if f.Name == "stall" && f.Start.before(late.reply) && kill.Start.before(f.End) {
			return true
		}
	}
	return false
}
