package explore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Phase is where in its tenure a node is when it is struck.
type Phase string

// The phases.
const (
	BeforeSend  Phase = "before send"  // an acquisition is about to leave
	AfterApply  Phase = "after apply"  // the server has decided on it
	BeforeReply Phase = "before reply" // its reply has arrived and was not read yet
	InWork      Phase = "in the work"
	InRenew     Phase = "in renew" // anywhere on the way of a renewal
	InRelease   Phase = "in release"
	InQueue     Phase = "in the queue" // between two attempts of a wait
)

var allPhases = [...]Phase{BeforeSend, AfterApply, BeforeReply, InWork, InRenew, InRelease, InQueue}

// Phases lists the phases.
func Phases() []Phase { return append([]Phase(nil), allPhases[:]...) }

// place is a phase, by its number, and which leg of an exchange where it has
// several.
type place struct{ phase, leg int }

const (
	inWork, inRenew, inRelease, inQueue = 3, 4, 5, 6
	legs                                = 3 // about to leave, applied, arrived back
)

func (p place) number() int { return p.phase*legs + p.leg }

// placeOf is where a message is on its way.
func placeOf(op Op, leg int) place {
	switch op {
	case Renew:
		return place{inRenew, leg}
	case Release, Delete:
		return place{inRelease, leg}
	}
	return place{leg, 0}
}

// Fault is a row of the table of faults.
type Fault struct {
	Name   string
	Hazard lockspec.Hazard // empty: it excuses nothing
	Means  string
	apply  func(*step, *World, *Node) (heal func())
	fated  func(*step) *fate // of a message
}

// Plan is what a seed decided. Its steps are placed by what a node does, not by
// the clock.
type plan struct {
	network network
	lease   time.Duration
	proven  bool // nodes' clocks are proven: they give stamps
	steps   []*step
	seen    [][len(allPhases) * legs]uint16 // visits, by node and place
	pending int
	open    bool // everything can strike every node, and no step says when
}

// step is one fault.
type step struct {
	id      string
	fault   *Fault
	node    string
	at      place
	nth     int           // at this visit of the place
	lasts   time.Duration // until it is healed
	by      time.Duration // of a server's clock
	rate    float64       // of a node's clock
	server  int
	resets  bool    // the connection breaks instead of falling silent
	into    float64 // of the work
	key     string
	targets []string

	struck, landed, ended bool
}

// strikes says whether the plan may have one of the faults for a node.
func (p *plan) strikes(node string, faults ...string) bool {
	return p.open || slices.ContainsFunc(p.steps, func(s *step) bool {
		return s.node == node && slices.Contains(faults, s.fault.Name)
	})
}

// awaits says whether the plan has something for a node in a phase.
func (p *plan) awaits(node string, phase int) bool {
	return slices.ContainsFunc(p.steps, func(s *step) bool { return s.node == node && s.at.phase == phase })
}

// Size is how large the worlds are.
type Size struct {
	Nodes, Tenures int
	Steps          int // faults, at most
}

const theKey = "k"

// draw makes the plan of a seed.
func draw(seed uint64, size Size, from choice) *plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := &plan{seen: make([][len(allPhases) * legs]uint16, size.Nodes), proven: rng.IntN(2) == 0}
	p.lease = time.Duration(300+rng.IntN(700))*time.Millisecond + time.Duration(rng.IntN(1e6))
	p.network = [...]network{
		{least: 50 * time.Microsecond, most: time.Millisecond},
		{least: 50 * time.Microsecond, most: 2 * time.Millisecond, slow: 10},
		{least: time.Millisecond, most: 15 * time.Millisecond, slow: 20},
	}[rng.IntN(3)].within(p.lease)
	for range min(size.Steps, [...]int{0, 0, 1, 1, 1, 1, 2, 2, 2, 3}[rng.IntN(10)]) {
		p.steps = append(p.steps, p.drawStep(rng, size, from))
	}
	p.pending = len(p.steps)
	for _, s := range p.steps {
		p.proven = p.proven && s.fault.Hazard != lockspec.ClientClock
	}
	return p
}

func nodeName(n int) string { return fmt.Sprintf("n%d", n+1) }

func (p *plan) drawStep(rng *rand.Rand, size Size, from choice) *step {
	node := rng.IntN(size.Nodes)
	s := &step{id: fmt.Sprintf("f%d", len(p.steps)+1), fault: from.faults[rng.IntN(len(from.faults))],
		node: nodeName(node), at: place{rng.IntN(len(allPhases)), 0},
		nth: 1 + rng.IntN(max(1, min(3, size.Tenures))), into: rng.Float64(), resets: rng.IntN(2) == 0,
		server: rng.IntN(from.servers), key: theKey}
	if s.at.phase == inRenew || s.at.phase == inRelease {
		s.at.leg = rng.IntN(legs)
	}
	// Half of what lasts is shorter than a lease and must be borne, half longer.
	part := 0.02 + 0.2*rng.Float64()
	if rng.IntN(2) == 0 {
		part = 0.5 + 2*rng.Float64()
	}
	if strings.HasPrefix(s.fault.Name, "delay-") {
		part = 0.05 + 1.15*rng.Float64() // around the lease is where locks err
	}
	s.lasts = time.Duration(part * float64(p.lease))
	s.by = time.Duration((rng.Float64()*3 - 1) * float64(p.lease))
	s.rate = 0.5 + rng.Float64()*1.5
	return s
}
