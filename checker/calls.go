package checker

import (
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

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
