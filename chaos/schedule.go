package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Step is one fault of a schedule. It is placed by what the struck node does,
// not by the clock: after its n-th grant, that far into its work.
type Step struct {
	Fault string        `json:"fault"`
	Node  string        `json:"node"`
	Grant int           `json:"grant"`            // strike in this grant of the node's contender, 1 is the first
	Into  time.Duration `json:"into_ns"`          // after the work began
	For   time.Duration `json:"for_ns,omitempty"` // until it is healed; 0: at once, or never
}

// Schedule is all that a scenario does, decided by one seed before it begins.
type Schedule struct {
	Case  string `json:"case"`
	Nodes int    `json:"nodes"`
	Steps []Step `json:"steps"`
}

// Nodes is how many nodes a scenario runs on.
const Nodes = 4

// node draws one of the nodes.
func node(rng *rand.Rand) string { return fmt.Sprintf("n%d", rng.IntN(Nodes)+1) }

// planPause stops a holder in the middle of its work, for long enough that its
// lease ends, another is granted the key and has written, all while it stands.
func planPause(rng *rand.Rand, lease time.Duration) []Step {
	return []Step{{Fault: "pause", Node: node(rng), Grant: 1 + rng.IntN(3), Into: lease / 4,
		For: 2*lease + time.Duration(rng.Int64N(int64(lease/2)))}}
}

// planKill kills a holder at any moment of its work.
func planKill(rng *rand.Rand, lease time.Duration) []Step {
	return []Step{{Fault: "kill", Node: node(rng), Grant: 1 + rng.IntN(3), Into: time.Duration(rng.Int64N(int64(lease / 4)))}}
}
