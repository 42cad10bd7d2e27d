package history

import (
	"fmt"
	"slices"
)

// Validator checks the structure of a stream of events: that every return
// answers an open invocation, that a process does one thing at a time, and
// that a name is not used again once nobody knows what became of its acquire:
// the operation may still take effect, so that what the name does next would
// overlap it. (A release is let through: a late grant is released at once.)
//
// The zero value is ready. It is not safe for concurrent use. Processes are
// told apart by case and name, so that cases may number theirs alike.
type Validator struct {
	processes map[process]*doing
}

// process is who acts: a process or, where an operation has none (shutdown), a
// node.
type process struct{ scope, name, node string }

// doing is what one process is about.
type doing struct {
	open    []operation
	retired bool
}

type operation struct {
	op     Op
	tenure string
}

// Check adds the next event. An error says what is wrong with it; the
// validator must not be used after one.
func (v *Validator) Check(e *Event) error {
	if e.Type == Happen {
		return nil
	}
	p := process{scope: e.Case, name: e.Process}
	if p.name == "" {
		if e.Op != Shutdown && e.Op != Cancel {
			return fmt.Errorf("%s of %s without a process", e.Type, e.Op)
		}
		p.node = e.Node
	}
	d := v.processes[p]
	if d == nil {
		if v.processes == nil {
			v.processes = make(map[process]*doing)
		}
		d = new(doing)
		v.processes[p] = d
	}
	if e.Type == Invoke {
		return d.invoke(e)
	}
	return d.returns(e)
}

func (d *doing) invoke(e *Event) error {
	if d.retired && e.Op != Release && !overlapsAll(e.Op) {
		return fmt.Errorf("process %q invokes %s although its name was retired by an acquire of unknown outcome", e.Process, e.Op)
	}
	next := operation{e.Op, e.Tenure}
	for _, o := range d.open {
		if !o.mayOverlap(next) {
			return fmt.Errorf("process %q invokes %s while its %s is open", e.Process, e.Op, o.op)
		}
	}
	d.open = append(d.open, next)
	return nil
}

func (d *doing) returns(e *Event) error {
	i := slices.IndexFunc(d.open, func(o operation) bool { return o.op == e.Op })
	if i < 0 {
		return fmt.Errorf("process %q has no open %s to return from", e.Process, e.Op)
	}
	d.open = slices.Delete(d.open, i, i+1)
	if e.Type == Info && (e.Op == Acquire || e.Op == Section) {
		d.retired = true
	}
	return nil
}

// overlapsAll says whether an operation of this kind may overlap any other.
func overlapsAll(op Op) bool { return op == Cancel || op == Shutdown }

// mayOverlap says whether two operations of one process may be open together:
// what is asked of a tenure while it works, and releases that race.
func (o operation) mayOverlap(b operation) bool {
	if overlapsAll(o.op) || overlapsAll(b.op) {
		return true
	}
	same := o.tenure == b.tenure || o.tenure == "" || b.tenure == ""
	return same && (o.op == Release && b.op == Release || o.works() && b.asks() || o.asks() && b.works())
}

func (o operation) works() bool { return o.op == Write || o.op == Section }

func (o operation) asks() bool { return o.op == Renew || o.op == Held || o.op == Release }
