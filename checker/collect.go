package checker

import (
	"slices"
	"sort"
	"time"

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
	index         int64 // of its return; unstamped while it is open
	key, owner    string
	node          string
	outcome       lockspec.Outcome
	unknown       bool // it may have left a grant behind
	mode          lockspec.Mode
	count         int
	ask           time.Duration
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
	rec       *record
	byID      map[string]*Tenure
	acquires  map[string]*history.Event // open, by process
	sections  map[string]*section       // open, by process
	calls     map[callKey][]openCall    // open, by process, operation and tenure
	gaveUp    map[int64]gaveUp          // operations of unknown outcome, by the index of invocation and return
	answered  map[string]Moment         // the latest invocation that each node has answered
	shutdowns map[string]Moment         // the last of each node
}

type callKey struct {
	process, tenure string
	op              history.Op
}

type openCall struct {
	tenure *Tenure
	at     int // in releases or checks of the tenure
}

// gaveUp is an operation that a late reply may still answer: an acquisition, or
// a call of a tenure.
type gaveUp struct {
	acquire *history.Event
	call    openCall
	op      history.Op
}

// section is an open section, and the tenure it runs in once it was entered.
type section struct {
	invoke *history.Event
	tenure *Tenure
}

// collect reads a history, which must be well-formed (history.Validator), and
// lays out the intervals of its tenures.
func collect(h *history.Header, events []history.Event) *record {
	c := &collector{
		rec:      &record{header: h, faults: collectFaults(events)},
		byID:     map[string]*Tenure{},
		acquires: map[string]*history.Event{},
		sections: map[string]*section{},
		calls:    map[callKey][]openCall{},
		gaveUp:   map[int64]gaveUp{}, answered: map[string]Moment{}, shutdowns: map[string]Moment{},
	}
	for i := range events {
		c.add(&events[i])
	}
	c.rec.attempts = append(c.rec.attempts, c.openAttempts()...)
	c.rec.end = lastOf(events)
	slices.SortStableFunc(c.rec.tenures, func(a, b *Tenure) int { return order(a.Return, b.Return) })
	for _, t := range c.rec.tenures {
		t.finish(c.rec)
	}
	return c.rec
}

// lastOf is where a history ends. Events of no case go on long after the case
// that is judged has ended, when its clients are closed and tell nothing.
func lastOf(events []history.Event) Moment {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Case != "" {
			return stamp(&events[i])
		}
	}
	if n := len(events); n > 0 {
		return stamp(&events[n-1])
	}
	return Moment{}
}

func (t *Tenure) finish(r *record) {
	t.setPaper()
	if c := r.header.Class; t.untold && t.Session && c != lockspec.Session && c != lockspec.Memory {
		// A lock of leases that did not say how long it granted: nobody knows
		// what was promised, so nothing was. What was believed is judged.
		t.Paper = nil
	}
	t.setEntitled(r.faults, r.header.Class == lockspec.Session)
	t.setBelieved(r.faults, r.header.Claimed(lockspec.AutoRenew))
}

func (c *collector) openAttempts() []attempt {
	var open []attempt
	for _, e := range c.acquires {
		open = append(open, attemptOf(e, nil))
	}
	for _, s := range c.sections {
		if s.tenure == nil {
			open = append(open, attemptOf(s.invoke, nil))
		}
	}
	sort.Slice(open, func(i, j int) bool { return open[i].invoke.before(open[j].invoke) })
	return open
}

// attemptOf is an acquisition without a tenure; without a return it is open,
// and its outcome unknown. One of which the driver is sure that it did nothing
// is recorded as a refusal whatever its word.
func attemptOf(invoke, e *history.Event) attempt {
	a := attempt{invoke: stamp(invoke), reply: never, index: unstamped, key: invoke.Key, owner: invoke.Owner, node: invoke.Node, outcome: lockspec.Unavailable,
		unknown: true, mode: invoke.Mode, count: max(1, invoke.Count), ask: invoke.Ask}
	if e != nil {
		a.reply, a.index, a.outcome, a.unknown = stamp(e), e.Index, e.Error, e.Type == history.Info
	}
	return a
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
	case e.Op == history.Section && e.Tenure == "" && e.Type == history.Invoke:
		c.sections[e.Process] = &section{invoke: e}
	case e.Op == history.Section && e.Returns() && c.sections[e.Process] != nil:
		c.leave(c.sections[e.Process], e)
		delete(c.sections, e.Process)
	case e.Type == history.Invoke:
		c.invoke(e)
	case e.Returns():
		c.reply(e)
	default:
		c.happen(e)
	}
}

func (c *collector) shutdown(e *history.Event) {
	c.shutdowns[e.Node] = stamp(e)
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
	c.hears(invoke)
	if e.Type == history.OK {
		c.grant(e, invoke)
		return
	}
	c.rec.attempts = append(c.rec.attempts, attemptOf(invoke, e))
	if e.Type == history.Info {
		c.gaveUp[invoke.Index] = gaveUp{acquire: invoke, op: e.Op}
		c.gaveUp[e.Index] = c.gaveUp[invoke.Index]
	}
}

// hears notes that a node answered what was asked of it at the moment. Its
// stream is ordered: what it wrote before that answer has arrived before.
func (c *collector) hears(invoke *history.Event) {
	c.answered[invoke.Node] = later(stamp(invoke), c.answered[invoke.Node])
}

// grant starts the tenure that the event e gave to who had asked.
func (c *collector) grant(e, invoke *history.Event) *Tenure {
	t := &Tenure{
		ID: e.Tenure, Key: invoke.Key, Process: invoke.Process, Owner: invoke.Owner, Node: invoke.Node,
		Mode: invoke.Mode, Count: max(1, invoke.Count, e.Count), Token: e.Token, Session: e.Lease == 0 && e.Left == 0, Lease: e.Lease,
		Invoke: stamp(invoke), Return: stamp(e), sent: e.Sent,
		waited: invoke.Wait != 0, manual: invoke.Renewal == lockspec.RenewManual,
		shared:   c.rec.header.Claimed(lockspec.SessionLease) && e.Left == 0 && e.Lease != 0,
		shutdown: never, Cut: Cut{At: never},
	}
	if e.Left != 0 {
		t.Lease = e.Left
	}
	if t.Node == "" {
		t.Node = e.Node
	}
	if down, ok := c.shutdowns[t.Node]; ok && t.Invoke.before(down) {
		t.shutdown = t.Return // the shutdown may have taken it back at once
	}
	c.rec.tenures = append(c.rec.tenures, t)
	c.byID[t.ID] = t
	return t
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
// it wrote that event.
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
	if e.Driver != 0 {
		earliest = at(e.Driver)
	}
	t.releases = append(t.releases, call{op: history.Release, invoke: earliest, reply: stamp(e), outcome: lockspec.Unavailable})
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
	c.settle(o, e.Op, e, outcome, e.Type)
	if e.Type == history.Info {
		c.gaveUp[o.call(e.Op).invoke.Index] = gaveUp{call: o, op: e.Op}
		c.gaveUp[e.Index] = gaveUp{call: o, op: e.Op}
	} else if i := o.call(e.Op).invoke; c.answered[e.Node].before(i) {
		c.answered[e.Node] = i
	}
}

func (o openCall) call(op history.Op) *call {
	if op == history.Release {
		return &o.tenure.releases[o.at]
	}
	return &o.tenure.checks[o.at]
}

// settle gives a call its outcome. A driver tells a loss before any reply that
// it computes afterwards: what no event told was found by this very call.
func (c *collector) settle(o openCall, op history.Op, e *history.Event, outcome lockspec.Outcome, kind history.Type) {
	call := o.call(op)
	call.reply, call.outcome, call.unknown = stamp(e), outcome, kind == history.Info
	if op == history.Renew {
		o.tenure.renewed(call.invoke, e, kind)
	}
	if op != history.Release && call.refused() {
		o.tenure.losses = append(o.tenure.losses, loss{call.invoke, stamp(e)})
	}
}

// renewed completes the renewal that was invoked at the moment. One that was
// refused renewed nothing.
func (t *Tenure) renewed(invoke Moment, e *history.Event, kind history.Type) {
	for i := range t.renewals {
		r := &t.renewals[i]
		if r.own || r.invoke != invoke {
			continue
		}
		switch kind {
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
