package contract

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Level says what a case needs of whoever runs it.
type Level string

// The levels.
const (
	ClientLevel  Level = "client"  // any client
	HarnessLevel Level = "harness" // a power of the harness
	APILevel     Level = "api"     // a promise of the reference engine's Go API; tested there, listed here
)

// Suite is the version of the cases; results compare only within one.
const Suite = "1"

// The suites that cases belong to.
const (
	ContractSuite = "contract"
	ChaosSuite    = "chaos"
)

// Case is one promise and how to see it broken.
type Case struct {
	ID    string // as in the catalogue; never reused
	Suite string // empty: contract
	Group string // in one word
	Name  string // the promise, in words
	Why   string // what goes wrong for a user when it is broken
	Level Level
	Since string // suite version

	Needs []lockspec.Feature // unsupported unless claimed
	Nodes int                // separate processes needed; 0: any client will do
	Bound string             // a bound without which the case has no measure (see bounds)

	Serial bool          // alone on the machine: it strikes nodes or measures time
	Limit  time.Duration // after which the case is killed as error; 0: 30 s

	Long bool // it takes seconds where most take a tenth of one, and is not left for last

	Run func(ctx context.Context, e *Env)
}

// Title is the case's name as a subtest: group/name-in-words.
func (c *Case) Title() string { return c.Group + "/" + c.ID + " " + c.Name }

// Cases is the contract, in the order of IDs. Those of the API level have no Run.
func Cases() []Case {
	all := slices.Concat(
		acquireCases(),
		releaseCases(),
		handleCases(),
		waitingCases(),
		renewalCases(),
		fencingCases(),
		keyCases(),
		errorCases(),
		limitCases(),
		sectionCases(),
		sharedCases(),
		permitCases(),
		reentrantCases(),
		apiCases(),
	)
	slices.SortFunc(all, func(a, b Case) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// bounds are the bounds a case may have as its measure.
var bounds = map[string]func(lockspec.Bounds) time.Duration{
	"takeover": func(b lockspec.Bounds) time.Duration { return b.Takeover },
	"loss":     func(b lockspec.Bounds) time.Duration { return b.LossFor(leastLease) },
	"cancel":   func(b lockspec.Bounds) time.Duration { return b.Cancel },
	"poll":     func(b lockspec.Bounds) time.Duration { return b.Poll },

	"lease_min":   func(b lockspec.Bounds) time.Duration { return b.LeaseMin },
	"renew_every": func(b lockspec.Bounds) time.Duration { return b.RenewEveryFor(leastLease) },
	"tolerates":   func(b lockspec.Bounds) time.Duration { return b.Tolerates },
}
