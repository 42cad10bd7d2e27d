package checker

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Fault is one fault of a run as its events tell it. Start was stamped before
// it was applied, End after its healing was confirmed. One without a landed
// event struck nothing and excuses nothing.
type Fault struct {
	ID, Name string
	Hazard   lockspec.Hazard // empty: it excuses nothing
	Targets  []string
	Start    Moment
	End      Moment // never while it lasts
	Landed   bool
	Found    bool // not injected: a stall of the machine, a clock step
}

// Controller as a fault's target is the harness itself: while it did not run,
// it saw nobody.
const Controller = "controller"

// ServiceTarget as a fault's target is the lock service: nobody could renew
// while it did not run, on whatever node.
const ServiceTarget = "service"

// faultReasons says how the faults that strike the service or a key end
// entitlements; faults that are not in it strike a node, a link or a clock.
var faultReasons = []struct {
	name        string
	sessionOnly bool
}{
	{"failover", false}, {"restart", false}, {"evict", false}, {"flush", false},
	{"server-clock", false}, {"break", false},
	{"partition", true}, {"terminate", true}, {"server-pause", true},
	// A session that its client has to keep alive ends while the client is
	// stopped, and the service is right to grant the key to another.
	{"pause", true}, {"stall", true}, {"suspend", true},
}

func (f *Fault) strikes(t *Tenure) bool {
	for _, target := range f.Targets {
		switch target {
		case t.Node, "link:" + t.Node, "clock:" + t.Node, "service", "clock:service", "key:" + t.Key, Controller:
			return true
		}
	}
	return false
}

// strikesNode says whether the fault strikes a node itself, its link or its
// clock.
func (f *Fault) strikesNode(node string) bool {
	return slices.ContainsFunc(f.Targets, func(target string) bool {
		return target == node || target == "link:"+node || target == "clock:"+node || target == Controller
	})
}

// killed says whether the fault ended the process that the tenure lived in.
// An acquisition that was called before the kill was over is the dead
// process's, even where its reply was read out of the pipe afterwards; a node
// is started anew only after that. A kill that neither landed nor is over
// killed nobody that anybody knows of.
func (f *Fault) killed(t *Tenure) bool { return (f.Landed || f.End != never) && f.aimedAt(t) }

// aimedAt says whether the fault is a kill of the process that the tenure
// lived in, whether or not it landed.
func (f *Fault) aimedAt(t *Tenure) bool {
	return f.Name == "kill" && slices.Contains(f.Targets, t.Node) && !f.End.before(t.Invoke)
}

// breaks says whether an operator's break may have taken the key from t.
func (f *Fault) breaks(t *Tenure) bool {
	return f.Name == "break" && (slices.Contains(f.Targets, "key:"+t.Key) || slices.Contains(f.Targets, "service")) && f.meets(t)
}

// meets says whether the fault had not healed when the grant may have been
// made. What healed between the invocation of an acquisition and its return may
// have taken the grant away before its reply came.
func (f *Fault) meets(t *Tenure) bool { return !f.End.before(t.Invoke) }

// takes says whether the fault may take a key from its holder.
func (f *Fault) takes(t *Tenure, session bool) bool {
	for _, r := range faultReasons {
		if r.name == f.Name && (!r.sessionOnly || session) {
			return f.strikes(t) && f.meets(t)
		}
	}
	return false
}

// onService says whether the holder notices the fault by his next renewal,
// not by the end of his paper.
func (f *Fault) onService() bool {
	for _, r := range faultReasons {
		if r.name == f.Name && !r.sessionOnly {
			return true
		}
	}
	return false
}

// stalls says whether this machine kept the service from running. It then held
// up whoever asked, as a stall of every node does, and knows all it knew before:
// it excuses nothing that a stall of every node does not.
func (f *Fault) stalls() bool { return f.Name == "stall" && slices.Contains(f.Targets, ServiceTarget) }

// onServiceSide says whether the fault strikes the service, its clock or a key:
// what it counts leases by. A node that did not run has not changed when the
// service let its lease end; nor has a service that did not, whose clock went on.
func (f *Fault) onServiceSide() bool {
	return !f.stalls() && slices.ContainsFunc(f.Targets, func(t string) bool {
		return t == "service" || t == "clock:service" || strings.HasPrefix(t, "key:")
	})
}

// stops says whether the fault keeps the node from running.
func (f *Fault) stops(node string) bool {
	if f.Name != "pause" && f.Name != "stall" && f.Name != "suspend" {
		return false
	}
	return slices.Contains(f.Targets, node) || slices.Contains(f.Targets, Controller)
}

// slows says whether the fault may make the node's clock fall behind.
func (f *Fault) slows(node string) bool {
	return (f.Hazard == lockspec.Suspend || f.Hazard == lockspec.ClientClock) &&
		(slices.Contains(f.Targets, node) || slices.Contains(f.Targets, "clock:"+node))
}

// mayCause says whether the fault, had it landed, may be why two believed
// from t0 on: it strikes the former holder, began before, and healed no longer
// ago than one lease and the time to notice. A healed fault does not excuse
// for ever, a fault on a bystander excuses nothing. An operator's break has no
// hazard word, needs no declaration, and must only be contained.
func (f *Fault) mayCause(i *Tenure, t0 Moment, within time.Duration) bool {
	return (f.Hazard != "" || f.Name == "break") && f.strikes(i) && !t0.before(f.Start) &&
		(f.End == never || f.End.Time >= t0.Time-int64(within))
}

// collectFaults reads the faults of a history in the order of their start.
func collectFaults(events []history.Event) []*Fault {
	var faults []*Fault
	open := map[string]*Fault{}
	seen := map[string]Moment{} // the last word of each node
	for i := range events {
		e := &events[i]
		if e.Returns() {
			seen[e.Node] = stamp(e)
		}
		switch {
		case e.Op == history.Exit:
			faults = append(faults, exited(e, seen))
		case e.Op != history.Fault:
		case e.Phase == history.Observed:
			f := newFault(e, at(e.From))
			f.End, f.Landed = at(e.To), true
			faults = append(faults, f)
		case e.Phase == history.Start:
			open[e.ID] = newFault(e, stamp(e))
			faults = append(faults, open[e.ID])
		case open[e.ID] == nil:
		case e.Phase == history.Landed:
			open[e.ID].Landed = true
			if open[e.ID].Name == "kill" {
				open[e.ID].End = stamp(e) // nothing to heal: what is asked of the node later is another life's
			}
		case e.Phase == history.End:
			open[e.ID].End = stamp(e)
		}
	}
	return faults
}

// exited is the end of a process that nobody asked for. It came some time
// after the last word of the process: a key that was free at once was rightly
// granted before the harness noticed.
func exited(e *history.Event, seen map[string]Moment) *Fault {
	start, ok := seen[e.Node]
	if !ok {
		start = at(math.MinInt64)
	}
	return &Fault{ID: "exit-" + e.Node, Name: "kill", Targets: []string{e.Node}, Start: start, End: stamp(e), Landed: true, Found: true}
}

func newFault(e *history.Event, start Moment) *Fault {
	f := &Fault{ID: e.ID, Name: e.Fault, Hazard: e.Hazard, Targets: e.Targets, Start: start, End: never,
		Found: e.Origin == history.Found}
	if f.Name == "stall" {
		f.Hazard = lockspec.Pause // whatever the line says: it did not run
	}
	return f
}

func stamp(e *history.Event) Moment { return Moment{Time: e.Time, Index: e.Index} }

// judgeDeaths: a lock library must not take its process down with it.
func judgeDeaths(v *Verdict, events []history.Event) {
	for i := range events {
		if e := &events[i]; e.Op == history.Exit && e.Reason == "unasked" && concerns(events, i) {
			v.find(Finding{Kind: Contract, Rule: "process-died", Level: Service, Events: []int64{e.Index},
				Message: fmt.Sprintf("the process of %s ended by itself: %s", e.Node, e.Message)})
		}
	}
}

// concerns says whether the end of a node belongs to what is judged: an event
// of no case is in the part of every case, and only a case that had used the
// node and was still going on saw it die.
func concerns(events []history.Event, exit int) bool {
	e := &events[exit]
	if e.Case != "" {
		return true
	}
	own, before, after := false, false, false
	for i := range events {
		if o := &events[i]; o.Case != "" {
			own = true
			before = before || i < exit && o.Node == e.Node
			after = after || i > exit
		}
	}
	return !own || before && after
}

// describe names the fault with its targets.
func (f *Fault) describe() string { return f.Name + " of " + strings.Join(f.Targets, ", ") }

// timeless are the rules that rest on the order of events alone.
var timeless = []string{"register-accepted-stale-token", "fenced-update-lost", "token-order", "token-repeated",
	"ok-after-successor", "ok-after-release", "process-died", "nil-nil"}

// voidByClock: where a clock of this machine was found to have been stepped, a
// service that measures leases by it measured them wrongly, and nothing that
// rests on a lease stands. (A service on another machine keeps its own clock;
// then nobody records a step.)
func (r *record) voidByClock(v *Verdict) {
	if !slices.ContainsFunc(r.faults, func(f *Fault) bool { return f.Found && (f.Name == "clock-step" || f.Name == "suspend") }) {
		return
	}
	var stand []Finding
	for _, f := range v.Findings {
		if f.exact || slices.Contains(timeless, f.Rule) {
			stand = append(stand, f)
			continue
		}
		f.Certainty = "a clock was stepped, or the machine slept"
		v.Doubts = append(v.Doubts, f)
	}
	v.Findings = stand
}
