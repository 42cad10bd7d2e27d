package chaos

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// Step is one fault of a schedule. It is placed by what the struck node does,
// not by the clock: after its n-th grant, that far into its work.
type Step struct {
	Fault    string        `json:"fault"`
	Node     string        `json:"node"`
	Grant    int           `json:"grant"`                 // strike in this grant of the node's contender, 1 is the first
	Into     time.Duration `json:"into_ns"`               // after the work began
	For      time.Duration `json:"for_ns,omitempty"`      // until it is healed; 0: at once, or never
	Work     time.Duration `json:"work_ns,omitempty"`     // how long the struck work takes; 0: half a lease
	Op       string        `json:"op,omitempty"`          // the operation whose request is struck
	Times    int           `json:"times,omitempty"`       // requests that are struck; 0: one; -1: all, until healed
	Patience time.Duration `json:"patience_ns,omitempty"` // how long a request to strike is waited for
	By       time.Duration `json:"by_ns,omitempty"`       // a clock's jump, a delay, the pause between two strokes
	Rate     float64       `json:"rate,omitempty"`        // of a node's clock
}

// Schedule is all that a scenario does, decided by one seed before it begins.
type Schedule struct {
	Case  string `json:"case"`
	Nodes int    `json:"nodes"`
	Steps []Step `json:"steps"`
}

// Nodes is how many nodes a scenario runs on.
const Nodes = 4

// NodePrefix begins the name of every node that a scenario runs on: x1, x2, …
// A harness that has power over links leads these, and no others, through them.
const NodePrefix = "x"

// lanes is how many scenarios run side by side, each on nodes of its own. The
// last is for one that takes as long as many others.
const lanes = 4

// nodeOf is the n-th node of a lane, from 0; lane 0 is for scenarios that run
// alone, on the nodes of the first.
func nodeOf(lane, n int) string {
	return NodePrefix + strconv.Itoa(max(0, lane-1)*Nodes+n+1)
}

// planner draws the steps of a scenario. Their nodes are numbers, "0" to "3".
type planner func(rng *rand.Rand, lease time.Duration) []Step

// steps are those of the row under a seed's source.
func (row *scenarioRow) steps(rng *rand.Rand, lease time.Duration) []Step {
	if row.plan == nil {
		return nil
	}
	steps := row.plan(rng, lease)
	for i := range steps {
		n, err := strconv.Atoi(steps[i].Node)
		if err != nil {
			panic(fmt.Sprintf("%s: node %q", row.id, steps[i].Node))
		}
		steps[i].Node = nodeOf(row.lane, n)
		if steps[i].Patience == 0 && steps[i].Op != "" {
			steps[i].Patience = 6 * lease
		}
	}
	return steps
}

// Plan is the schedule that a scenario will perform under the seed of its
// environment: same seed, same schedule.
func Plan(id string, rng *rand.Rand, lease time.Duration) (Schedule, bool) {
	for i := range scenarios {
		if row := &scenarios[i]; row.id == id {
			return Schedule{Case: id, Nodes: Nodes, Steps: append([]Step{}, row.steps(rng, lease)...)}, true
		}
	}
	return Schedule{}, false
}

// stroke is one fault in the work of a holder, from a quarter of a lease into
// it on: for so many leases and up to half of one more.
func stroke(name string, leases float64, more ...func(s *Step, rng *rand.Rand, lease time.Duration)) planner {
	return func(rng *rand.Rand, lease time.Duration) []Step {
		s := Step{Fault: name, Node: strconv.Itoa(rng.IntN(Nodes)), Grant: 1 + rng.IntN(3), Into: lease / 4}
		if leases > 0 {
			s.For = time.Duration(leases*float64(lease)) + time.Duration(rng.Int64N(int64(lease/8)+1))
		}
		for _, m := range more {
			m(&s, rng, lease)
		}
		return []Step{s}
	}
}

type detail = func(s *Step, rng *rand.Rand, lease time.Duration)

// holding lets the holder work for as long as the fault lasts, and so many
// leases more.
func holding(leases float64) detail {
	return func(s *Step, _ *rand.Rand, lease time.Duration) {
		s.Work = s.Into + s.For + time.Duration(leases*float64(lease))
	}
}

// anywhen strikes at any moment of the first quarter of a lease.
func anywhen(s *Step, rng *rand.Rand, lease time.Duration) {
	s.Into = time.Duration(rng.Int64N(int64(lease / 4)))
}

// early strikes soon after the grant: the holder will not ask for a third of a
// lease, and others have time to be granted what it holds.
func early(s *Step, _ *rand.Rand, lease time.Duration) { s.Into = lease / 20 }

// atOnce strikes as soon as the work begins.
func atOnce(s *Step, _ *rand.Rand, _ time.Duration) { s.Into = 0 }

// by is how far, how late or how often, in leases.
func by(leases float64) detail {
	return func(s *Step, _ *rand.Rand, lease time.Duration) { s.By = time.Duration(leases * float64(lease)) }
}

// jumping is a clock that jumps so far, either way.
func jumping(d time.Duration) detail {
	return func(s *Step, rng *rand.Rand, _ time.Duration) {
		if s.By = d; rng.IntN(2) == 0 {
			s.By = -d
		}
	}
}

func rate(r float64) detail { return func(s *Step, _ *rand.Rand, _ time.Duration) { s.Rate = r } }

// on strikes requests of the operation, so many.
func on(op string, times int) detail {
	return func(s *Step, _ *rand.Rand, _ time.Duration) { s.Op, s.Times = op, times }
}

// oneOf draws one of the planners.
func oneOf(plans ...planner) planner {
	return func(rng *rand.Rand, lease time.Duration) []Step { return plans[rng.IntN(len(plans))](rng, lease) }
}
