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
	against                 *access // that had raised the highest token, where it was refused
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
	t.setPaper(r.faults)
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
		c.rec.accesses = append(c.rec.accesses, access{at: stamp(e), register: e.Register, kind: e.Kind, tenure: e.Tenure, key: e.Key,
			token: e.Token, version: e.Version, basedOn: e.BasedOn, accepted: e.Accepted})
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
