package checker

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// judgeTakeover: after its holder is gone, a key must become obtainable within
// the last lease and the takeover bound. A holder that is merely stopped is not
// gone.
//
// The clock starts at the end of the kill, because a renewal may have been on
// its way when the process died; at the healing of whatever kept its packets;
// and at the reply to its last release, which may have been in the pipe. From
// then on a refused acquisition is a finding unless another may hold.
func (r *record) judgeTakeover(v *Verdict) {
	attempts := map[string][]*attempt{}
	for i := range r.attempts {
		attempts[r.attempts[i].key] = append(attempts[r.attempts[i].key], &r.attempts[i])
	}
	for _, group := range r.byKey() {
		for n, i := range group {
			kill := r.killer(i)
			if kill == nil || i.releasedBefore(kill.End) {
				continue
			}
			if n+1 < len(group) {
				if next := group[n+1].Return; kill.Start.before(next) {
					v.Measures.Takeovers = append(v.Measures.Takeovers, Span{kill.Start, next}.Length())
				}
			}
			if r.header.Bounds.Takeover > 0 && r.header.Capacity <= 1 {
				r.takeover(v, group, i, kill, attempts[i.Key])
			}
		}
	}
}

// takeover finds the first acquisition that was refused too late after a kill.
func (r *record) takeover(v *Verdict, group []*Tenure, i *Tenure, kill *Fault, attempts []*attempt) {
	landed, lease := r.latestLanding(i)
	due := r.freeBy(landed, lease+r.header.Bounds.Takeover+r.eps(lease))
	for _, a := range attempts {
		refused := !a.unknown && (a.outcome == lockspec.Busy || a.outcome == lockspec.Timeout)
		if !refused || !due.before(a.invoke) || r.othersHold(group, i, a) || r.rivalsExplain(a, attempts) {
			continue
		}
		if succeeded(group, i, kill, a) {
			return
		}
		f := Finding{Kind: Liveness, Rule: "takeover", Level: Service, Key: i.Key, Tenures: []string{i.ID}, Faults: []string{kill.ID},
			Events: []int64{kill.Start.Index, a.invoke.Index, a.index},
			Message: fmt.Sprintf("%s was killed at %s; %q was due to be free by %s and was still %s at %s",
				i.ID, Clock(kill.Start.Time), i.Key, Clock(due.Time), a.outcome, Clock(a.invoke.Time))}
		switch set := r.clockSet(i, a); {
		case set != nil && r.declared(set):
			return
		case set != nil:
			f.Certainty = "the service's clock was set, and with it the end of the lease"
		case r.disturbed(i.Key, kill, a):
			f.Certainty = "an unknown acquisition or a stall may explain it"
		}
		v.find(f)
		return
	}
}

// succeeded says whether another was granted the key after the kill and before
// the attempt: it had come free, and what keeps it busy now is no dead holder's.
// A reader beside a reader shows nothing of the kind, nor does the owner that
// the dead one was, to whom a reentrant lock grants what he holds.
//
// Counter-example to looking at who may hold during the attempt only: a copy of
// the successor's acquisition travels on, is granted after the successor has
// released, and the key is busy again, long after the dead holder was due.
func succeeded(group []*Tenure, i *Tenure, kill *Fault, a *attempt) bool {
	return slices.ContainsFunc(group, func(j *Tenure) bool {
		return j != i && j.Owner != i.Owner && (j.Mode != lockspec.Read || i.Mode != lockspec.Read) &&
			kill.End.before(j.Invoke) && j.Return.before(a.invoke)
	})
}

// freeBy is when a key is due to be free that may be kept so long from the
// moment on. A service that was struck meanwhile may begin every lease anew when
// it has healed: a new leader does not know what the old one had last heard.
func (r *record) freeBy(landed Moment, kept time.Duration) Moment {
	due := landed.plus(kept)
	for _, f := range r.faults { // in the order of their start
		if slices.Contains(f.Targets, ServiceTarget) && f.Landed && f.Start.before(due) && landed.before(f.End) {
			due = later(due, f.End.plus(kept))
		}
	}
	return due
}

// clockSet is a fault that set the service's clock while it kept the tenure. By
// how much it was set no history tells: the lease may have ended late, or never.
func (r *record) clockSet(i *Tenure, a *attempt) *Fault {
	for _, h := range r.faults {
		if h.Hazard == lockspec.ServerClock && h.strikes(i) && h.Start.before(a.reply) && i.Invoke.before(h.End) {
			return h
		}
	}
	return nil
}

// rivalsExplain says whether another refused attempt may be why this one was: a
// quorum lock leaves keys behind for a lease where it was refused.
func (r *record) rivalsExplain(a *attempt, attempts []*attempt) bool {
	known := slices.DeleteFunc(slices.Clone(attempts), func(b *attempt) bool { return b.unknown })
	return r.attemptExplains(a, known)
}

// othersHold says whether another tenure of the key may have held during the
// attempt, as the service knows it that answered.
//
// Counter-example to taking the ok to a release for the end of it: a replica has
// heard of the grant and not of the release, which was answered a millisecond
// before it took over. It keeps the key for the lease that it knows of.
func (r *record) othersHold(group []*Tenure, i *Tenure, a *attempt) bool {
	for _, j := range group {
		if j == i || a.reply.before(j.Invoke) {
			continue
		}
		end := r.latestEnd(j)
		if end != never && r.knowsLess(j, a) {
			landed, lease := r.latestLanding(j)
			end = later(end, landed.plus(lease+r.header.Bounds.Takeover+r.eps(lease)))
		}
		if !end.before(a.invoke) {
			return true
		}
	}
	return false
}

// knowsLess says whether the service that answered the attempt may be another
// than the one that answered the last of what the tenure asked, and know less.
func (r *record) knowsLess(t *Tenure, a *attempt) bool {
	return slices.ContainsFunc(r.faults, func(f *Fault) bool {
		return (f.Hazard == lockspec.Failover || f.Hazard == lockspec.Restart) && f.Landed && f.strikes(t) &&
			f.Start.before(a.reply) && t.Invoke.before(f.Start)
	})
}

// latestLanding is the latest moment from which the tenure's last lease may
// count, and the longest of the leases that may be the last one; never while
// the tenure may go on being renewed. What kept its packets may have kept a
// renewal.
func (r *record) latestLanding(t *Tenure) (Moment, time.Duration) {
	landed, lease := t.Return, t.Lease
	for _, n := range t.renewals {
		landed, lease = later(landed, n.reply), max(lease, n.lease)
	}
	if t.Session || r.selfRenewing(t) || t.shared {
		landed = never
		for _, l := range t.losses {
			landed = earlier(landed, l.latest)
		}
	}
	for _, f := range r.faults {
		if f.killed(t) && (landed == never || landed.before(f.End)) {
			landed = later(t.Return, f.End)
		}
	}
	for _, f := range r.faults {
		if f.strikes(t) && f.Name != "kill" && !landed.before(f.Start) && landed.before(f.End) {
			landed = f.End
		}
	}
	for i := range t.releases {
		if landed != never {
			landed = later(landed, earlier(t.releases[i].reply, r.end))
		}
	}
	return landed, lease
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
func (r *record) disturbed(key string, kill *Fault, late *attempt) bool {
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
