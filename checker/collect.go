package checker

import (
	"sort"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// access is one read or write of a register.
type access struct {
	at                      Moment
	register, kind, tenure  string
	key                     string
	token, version, basedOn int64
	accepted                history.Verdict
}

// attempt is one acquisition that gave no tenure.
type attempt struct {
	invoke, reply Moment
	key           string
	outcome       lockspec.Outcome
}

// record is a history sorted by what it is about.
type record struct {
	header   *history.Header
	tenures  []*Tenure // by the return of their acquisition
	faults   []*Fault
	accesses []access
	attempts []attempt
	end      Moment // of the history
}

// collector pairs the returns of a history with their invocations.
type collector struct {
	rec      *record
	byID     map[string]*Tenure
	acquires map[string]*history.Event // open, by process
	calls    map[callKey][]openCall    // open, by process, operation and tenure
}

type callKey struct {
	process, tenure string
	op              history.Op
}

type openCall struct {
	tenure *Tenure
	at     int // in releases or checks or renewals of the tenure
}

// collect reads a history, which must be well-formed (history.Validator), and
// lays out the intervals of its tenures.
func collect(h *history.Header, events []history.Event) *record {
	c := &collector{
		rec:      &record{header: h, faults: collectFaults(events)},
		byID:     map[string]*Tenure{},
		acquires: map[string]*history.Event{},
		calls:    map[callKey][]openCall{},
	}
	for i := range events {
		c.add(&events[i])
	}
	c.rec.attempts = append(c.rec.attempts, c.openAttempts()...)
	if n := len(events); n > 0 {
		c.rec.end = stamp(&events[n-1])
	}
	for _, t := range c.rec.tenures {
		t.finish(c.rec)
	}
	return c.rec
}

func (t *Tenure) finish(r *record) {
	t.setPaper()
	t.setEntitled(r.faults, r.header.Class == lockspec.Session)
	t.setBelieved(r.faults, r.header.Claimed(lockspec.AutoRenew))
}

func (c *collector) openAttempts() []attempt {
	var open []attempt
	for _, e := range c.acquires {
		open = append(open, attempt{invoke: stamp(e), reply: never, key: e.Key, outcome: lockspec.Unavailable})
	}
	sort.Slice(open, func(i, j int) bool { return open[i].invoke.before(open[j].invoke) })
	return open
}

func (c *collector) add(e *history.Event) {
	switch {
	case e.Op == history.Register:
		c.rec.accesses = append(c.rec.accesses, access{stamp(e), e.Register, e.Kind, e.Tenure, e.Key, e.Token, e.Version, e.BasedOn, e.Accepted})
	case e.Op == history.Shutdown && e.Type == history.Invoke:
		c.shutdown(e)
	case e.Op == history.Acquire && e.Type == history.Invoke:
		c.acquires[e.Process] = e
	case e.Op == history.Acquire && e.Returns():
		c.acquired(e, c.acquires[e.Process])
		delete(c.acquires, e.Process)
	case e.Type == history.Invoke:
		c.invoke(e)
	case e.Returns():
		c.reply(e)
	default:
		c.happen(e)
	}
}

func (c *collector) shutdown(e *history.Event) {
	for _, t := range c.rec.tenures {
		if t.Node == e.Node && t.shutdown == never {
			t.shutdown = stamp(e)
		}
	}
}

func (c *collector) acquired(e, invoke *history.Event) {
	if invoke == nil {
		return
	}
	if e.Type != history.OK {
		c.rec.attempts = append(c.rec.attempts, attempt{stamp(invoke), stamp(e), invoke.Key, e.Error})
		return
	}
	t := &Tenure{
		ID: e.Tenure, Key: invoke.Key, Process: e.Process, Owner: invoke.Owner, Node: invoke.Node,
		Mode: invoke.Mode, Token: e.Token, Session: e.Lease == 0 && e.Left == 0, Lease: e.Lease,
		Invoke: stamp(invoke), Return: stamp(e), sent: e.Sent,
		waited: invoke.Wait != 0, manual: invoke.Renewal == lockspec.RenewManual,
		doubt: never, shutdown: never, Cut: Cut{At: never},
	}
	if e.Left != 0 {
		t.Lease = e.Left
	}
	if t.Node == "" {
		t.Node = e.Node
	}
	c.rec.tenures = append(c.rec.tenures, t)
	c.byID[t.ID] = t
}

func (c *collector) invoke(e *history.Event) {
	t := c.byID[e.Tenure]
	if t == nil {
		return
	}
	o := openCall{tenure: t}
	switch e.Op {
	case history.Release:
		o.at = len(t.releases)
		t.releases = append(t.releases, call{op: e.Op, invoke: stamp(e), reply: never, outcome: lockspec.Unavailable})
	case history.Held, history.Write, history.Section, history.Renew:
		o.at = len(t.checks)
		t.checks = append(t.checks, call{op: e.Op, invoke: stamp(e), reply: never, outcome: lockspec.Unavailable})
		if e.Op == history.Renew {
			t.renewals = append(t.renewals, renewal{invoke: stamp(e), reply: never, lease: e.Ask})
		}
	default:
		return
	}
	k := callKey{e.Process, e.Tenure, e.Op}
	c.calls[k] = append(c.calls[k], o)
}

func (c *collector) reply(e *history.Event) {
	k := callKey{e.Process, e.Tenure, e.Op}
	open := c.calls[k]
	if len(open) == 0 {
		return
	}
	o := open[0]
	c.calls[k] = open[1:]
	outcome := e.Error
	if e.Type == history.OK {
		outcome = lockspec.OK
	}
	list := o.tenure.checks
	if e.Op == history.Release {
		list = o.tenure.releases
	}
	list[o.at].reply, list[o.at].outcome = stamp(e), outcome
	if e.Op == history.Renew {
		o.tenure.renewed(list[o.at].invoke, e)
	}
	if e.Op != history.Release && list[o.at].refused() {
		// A driver tells a loss before any reply that it computes afterwards:
		// what no event told was found by this very call.
		o.tenure.losses = append(o.tenure.losses, loss{list[o.at].invoke, stamp(e)})
	}
}

// renewed completes the renewal that was invoked at the moment. One that was
// refused renewed nothing.
func (t *Tenure) renewed(invoke Moment, e *history.Event) {
	for i := range t.renewals {
		r := &t.renewals[i]
		if r.own || r.invoke != invoke {
			continue
		}
		switch e.Type {
		case history.OK:
			r.ok, r.reply, r.sent = true, stamp(e), e.Sent
			if e.Lease != 0 {
				r.lease = e.Lease
			}
		case history.Info:
			r.reply = stamp(e)
		default:
			t.renewals = append(t.renewals[:i], t.renewals[i+1:]...)
		}
		return
	}
}

func (c *collector) happen(e *history.Event) {
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
		t.doubt = earlier(t.doubt, stamp(e))
	case history.Sure:
		t.doubt = never
	}
}

// lost adds a loss signal. Where no proven clock says when it was raised, it
// may have been raised as early as the last answer that still said "held" was
// asked for.
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
	t.losses = append(t.losses, loss{earliest, arrival})
}
