package checker

import (
	"slices"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// section is an open section, and the tenure it runs in once it was entered.
type section struct {
	invoke *history.Event
	tenure *Tenure
}

// late is a reply that came after the harness had given up. What was unknown
// is known by it: a refused acquisition left nothing behind; a granted one is a
// tenure that nobody believes in, and that the harness releases at once.
func (c *collector) late(e *history.Event) {
	g, ok := c.gaveUp[e.Of]
	if !ok {
		return
	}
	switch {
	case g.acquire == nil:
		c.settle(g.call, g.op, e, e.Outcome, history.ReturnType(e.Outcome))
	case e.Outcome == lockspec.OK && e.Tenure != "":
		c.forget(g.acquire)
		t := c.grant(e, g.acquire)
		t.late, t.untold = true, true
	case e.Outcome.Effect() == lockspec.Refused:
		c.forget(g.acquire)
		known := attemptOf(g.acquire, e)
		known.outcome, known.unknown = e.Outcome, false
		c.rec.attempts = append(c.rec.attempts, known)
	}
}

// forget drops the attempt that was invoked at the event.
func (c *collector) forget(invoke *history.Event) {
	c.rec.attempts = slices.DeleteFunc(c.rec.attempts, func(a attempt) bool { return a.invoke == stamp(invoke) })
}

// enter starts the tenure of a section: the lock was taken at the latest when
// the event arrived.
func (c *collector) enter(e *history.Event) {
	s := c.sections[e.Process]
	if s == nil || s.tenure != nil || e.Tenure == "" {
		return
	}
	s.tenure = c.grant(e, s.invoke)
	s.tenure.untold = true
	if e.Driver != 0 {
		s.tenure.Return = at(e.Driver)
	}
}

// leave ends the tenure of a section, by the event left or by the section's
// return, whichever comes first. Where no proven clock says when the work
// ended, it ended no earlier than the last answer that the node computed before
// it wrote that event; the reader of the node's lines tells which that was
// (sent_ns), and where it does not, their order in the history does.
//
// Counter-example to taking the arrival: the line lay in the pipe for 50 ms,
// another was rightly granted the key in between.
func (c *collector) leave(s *section, e *history.Event) {
	t := s.tenure
	if t == nil {
		if e.Returns() && e.Type != history.OK {
			c.rec.attempts = append(c.rec.attempts, attemptOf(s.invoke, e))
		}
		return
	}
	if e.Token != 0 && t.Token == 0 {
		t.Token = e.Token
	}
	if e.Returns() && (e.Error == lockspec.Lost || e.Error == lockspec.NotHeld) {
		t.lost(stamp(e), 0)
	}
	if len(t.releases) > 0 {
		return
	}
	earliest := later(t.Return, c.answered[t.Node])
	switch {
	case e.Driver != 0:
		earliest = at(e.Driver)
	case e.Sent != 0:
		earliest = later(t.Return, at(e.Sent))
	case e.Returns(): // it never told
		earliest = t.Return
	}
	t.releases = append(t.releases, call{op: history.Release, invoke: earliest, reply: stamp(e), outcome: lockspec.Unavailable})
}

func (c *collector) happen(e *history.Event) {
	switch e.Op {
	case history.Late:
		c.late(e)
		return
	case history.Entered:
		c.enter(e)
		return
	case history.Left:
		if s := c.sections[e.Process]; s != nil {
			c.leave(s, e)
		}
		return
	}
	t := c.byID[e.Tenure]
	if t == nil {
		return
	}
	switch e.Op {
	case history.Lost:
		t.lost(stamp(e), e.Driver)
	case history.Renewed:
		t.seesRenew = true
		t.renewals = append(t.renewals, renewal{invoke: stamp(e), reply: stamp(e), sent: e.Sent, lease: e.Lease, ok: true, own: true})
	case history.Doubt:
		if n := len(t.doubts); n == 0 || t.doubts[n-1].To != never {
			t.doubts = append(t.doubts, Span{stamp(e), never})
		}
	case history.Sure:
		if n := len(t.doubts); n > 0 {
			t.doubts[n-1].To = earlier(t.doubts[n-1].To, stamp(e))
		}
	}
}

// lost adds a loss signal. Where no proven clock says when it was raised, it
// may have been raised as early as the last answer that came before it was
// asked for: a driver writes a loss before any reply that it computes later.
//
// Counter-example to looking at checks alone: two are granted at once, and each
// is told its loss right after its release; taken back to their grants, those
// losses would hide that both had been promised the key.
func (t *Tenure) lost(arrival Moment, raised int64) {
	if raised != 0 {
		m := at(raised)
		t.losses = append(t.losses, loss{m, m})
		return
	}
	earliest := t.Return
	for i := range t.checks {
		if c := &t.checks[i]; c.outcome == lockspec.OK && c.reply.before(arrival) {
			earliest = later(earliest, c.invoke)
		}
	}
	for i := range t.releases {
		if c := &t.releases[i]; !c.unknown && c.reply.before(arrival) {
			earliest = later(earliest, c.invoke)
		}
	}
	t.losses = append(t.losses, loss{earliest, arrival})
}
