package explore

import (
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Those of every world; a service's own are in serviceFaults.
var worldFaults = []Fault{
	{Name: "pause", Hazard: lockspec.Pause, Means: "the node stands still, its clock goes on", apply: pause},
	{Name: "suspend", Hazard: lockspec.Suspend, Means: "the node and its clock stand still", apply: suspend},
	{Name: "kill", Means: "the node ends and is started anew", apply: kill},
	{Name: "client-clock", Hazard: lockspec.ClientClock, Means: "the node's clock runs fast or slow", apply: clientClock},
	{Name: "partition", Hazard: lockspec.Partition, Means: "nothing passes between the node and a server; what was sent arrives after healing", apply: cut(true, true)},
	{Name: "cut-requests", Hazard: lockspec.Partition, Means: "requests of the node are held until healing", apply: cut(true, false)},
	{Name: "cut-replies", Hazard: lockspec.Partition, Means: "replies to the node are held until healing", apply: cut(false, true)},
	{Name: "delay-request", Means: "a request travels long", fated: func(s *step) *fate { return &fate{step: s, delayRequest: s.lasts} }},
	{Name: "delay-reply", Means: "a reply travels long", fated: func(s *step) *fate { return &fate{step: s, delayReply: s.lasts} }},
	{Name: "drop-request", Means: "a request is lost", fated: func(s *step) *fate { return &fate{step: s, dropRequest: true, resets: s.resets} }},
	{Name: "drop-reply", Means: "a request takes effect and its reply is lost", fated: func(s *step) *fate { return &fate{step: s, dropReply: true, resets: s.resets} }},
	{Name: "duplicate", Means: "a request arrives twice, the second time later", fated: func(s *step) *fate { return &fate{step: s, again: s.lasts} }},
	{Name: "reorder", Means: "a request and its reply are overtaken by later ones", fated: func(s *step) *fate {
		return &fate{step: s, delayRequest: s.lasts / 8, delayReply: s.lasts / 8}
	}},
}

var serviceFaults = []Fault{
	{Name: "server-pause", Means: "a server answers nobody until healing", apply: serverPause},
	{Name: "restart", Hazard: lockspec.Restart, Means: "a server forgets what it does not keep on disk", apply: onService},
	{Name: "evict", Hazard: lockspec.Evict, Means: "the service drops the key", apply: onService},
	{Name: "server-clock", Hazard: lockspec.ServerClock, Means: "a server's clock jumps", apply: onService},
	{Name: "elect", Means: "the members of the service choose a new leader; until healing it answers nobody", apply: onService},
	{Name: "failover", Hazard: lockspec.Failover, Means: "a replica that may not know the grant takes over", apply: onService},
}

// Faults is the table of faults.
func Faults() []Fault { return append(append([]Fault(nil), worldFaults...), serviceFaults...) }

// reach is called where a node comes to a place; what the plan has for it there
// strikes.
func (n *Node) reach(at place, m *message) {
	w := n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.plan
	if p.pending == 0 || w.ended || n.dead || n.number >= len(p.seen) {
		return
	}
	seen := &p.seen[n.number][at.number()]
	*seen++
	for _, s := range p.steps {
		if !s.struck && s.node == n.Name && s.at == at && s.nth == int(*seen) {
			s.struck = true
			p.pending--
			s.strike(w, n, m)
		}
	}
}

// strike applies the fault. A fault of a message strikes the one that is at the
// place; where there is none, or it is too late for that, the node's next.
func (s *step) strike(w *World, n *Node, m *message) {
	if s.fault.fated == nil {
		s.begin(w)
		if heal := s.fault.apply(s, w, n); heal != nil {
			time.AfterFunc(s.lasts, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				if !w.ended {
					s.tell(w, history.Healing)
					heal()
					s.end(w)
				}
			})
			return
		}
		s.end(w)
		return
	}
	f := s.fault.fated(s)
	if m == nil || m.fate != nil || s.late() {
		n.next = append(n.next, f)
		return
	}
	m.take(f)
}

// late says whether a message at the place has gone what the fault would do to
// it.
func (s *step) late() bool {
	leg := s.at.leg
	if s.at.phase < legs {
		leg = s.at.phase // of an acquisition
	}
	onReply := s.fault.Name == "drop-reply" || s.fault.Name == "delay-reply"
	return leg == 2 || leg == 1 && !onReply
}

func (s *step) begin(w *World) {
	s.targets = s.hits()
	s.tell(w, history.Start)
	s.landed = true
	s.tell(w, history.Landed)
}

func (s *step) end(w *World) {
	s.ended = true
	s.tell(w, history.End)
}

// hits is what the fault strikes, in the words of a history.
func (s *step) hits() []string {
	switch s.fault.Name {
	case "pause", "suspend", "kill":
		return []string{s.node}
	case "client-clock":
		return []string{"clock:" + s.node}
	case "restart", "failover", "server-pause", "elect":
		return []string{"service"}
	case "server-clock":
		return []string{"clock:service"}
	case "evict":
		return []string{"key:" + s.key}
	}
	return []string{"link:" + s.node}
}

func (s *step) tell(w *World, p history.Phase) {
	name := s.fault.Name
	if s.fault.Hazard == lockspec.Partition {
		name = "partition"
	}
	w.rec.Record(&history.Event{Type: history.Happen, Op: history.Fault, ID: s.id, Fault: name, Hazard: s.fault.Hazard,
		Targets: s.targets, Phase: p, Origin: history.Injected})
}

func pause(_ *step, _ *World, n *Node) func() {
	n.view.Pause()
	n.runs.shut()
	return func() { n.resume() }
}

func suspend(_ *step, _ *World, n *Node) func() {
	n.view.Suspend()
	n.runs.shut()
	n.suspended++
	return func() {
		n.suspended--
		n.resume()
	}
}

// resume ends one of the faults that stop the node. Its clock goes on when
// nothing suspends it any more, its timers when nothing stops it.
func (n *Node) resume() {
	n.runs.open()
	if n.dead || n.suspended > 0 {
		return
	}
	n.view.Resume()
	if n.runs.closed > 0 {
		n.view.Pause()
	}
}

func kill(_ *step, _ *World, n *Node) func() {
	n.kill()
	return nil
}

func clientClock(s *step, w *World, n *Node) func() {
	n.view.SetRate(s.rate)
	n.view.Shift(s.by)
	return func() {
		n.view.SetRate(1)
		n.view.Shift(-s.by)
	}
}

func cut(out, in bool) func(*step, *World, *Node) func() {
	return func(s *step, _ *World, n *Node) func() {
		l := n.links[s.server]
		if out {
			l.out.shut()
		}
		if in {
			l.in.shut()
		}
		return func() {
			if out {
				l.out.open()
			}
			if in {
				l.in.open()
			}
		}
	}
}

func serverPause(s *step, w *World, _ *Node) func() {
	w.doors[s.server].shut()
	return func() { w.doors[s.server].open() }
}

func onService(s *step, w *World, _ *Node) func() {
	return w.service.Strike(Strike{s.fault.Name, s.server, s.key, s.by})
}
