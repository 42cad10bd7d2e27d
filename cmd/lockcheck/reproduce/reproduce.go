// Package reproduce holds the stories: documented failures of locks, each with
// the run that shows it and the run that shows its cure, a file a story.
package reproduce

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// Story is one documented failure.
type Story struct {
	Name   string
	Title  string // what goes wrong, in a sentence
	Source string // where it is documented
	Shown  Play
	Cure   string // what helps, in a sentence
	Cured  Play
}

// Play is a run of one case, and what must be seen in it.
type Play struct {
	Target string
	Case   string         // of the suites
	Own    *contract.Case // in its place, one of the story's own
	Sign   Sign

	// Start brings up what the story needs, in place of the target.
	Start func(ctx context.Context, servers containers.Options) (contract.Harness, func() error, error)

	// Lease to ask for; 0: as a run chooses it. Where a server has to be started
	// anew within a third of it, it is a longer one.
	Lease time.Duration
}

// ID is that of the play's case.
func (p *Play) ID() string {
	if p.Own != nil {
		return p.Own.ID
	}
	return p.Case
}

// Sign looks for what a play must show. Says is what it saw, or misses.
type Sign func(r *result.Report, c *result.Case) (seen bool, says string)

// Stories is the table of stories.
func Stories() []Story {
	return []Story{
		redisFailover, redisRestart, redisEviction, redisClockJump, redlockClockJump, redlockNodeRestart,
		pausePastLease, lateReply, delayedWrite, postgresFailover, postgresHalfOpen, pgbouncerTransaction,
		azureRenewAfterExpiry, azureBrokenLease, releaseDeletesSuccessor, lostReplyOrphan, cancelledAcquireOrphan,
	}
}

// twoHolders is a hazard that let two believe that they hold.
func twoHolders(h lockspec.Hazard) Sign {
	return func(_ *result.Report, c *result.Case) (bool, string) {
		longest := int64(0)
		for _, shown := range c.Hazards {
			if shown.Name == h {
				longest = max(longest, shown.Overlap)
			}
		}
		if longest == 0 {
			return false, fmt.Sprintf("no two believed at once because of a %s", h)
		}
		return true, fmt.Sprintf("two believed at once that they hold the key, for %s", time.Duration(longest).Round(10*time.Microsecond))
	}
}

// staleWrite is a write that came when the lease was over.
func staleWrite(_ *result.Report, c *result.Case) (bool, string) {
	if c.StaleWrites.Tried == 0 {
		return false, "no write came after the lease was over"
	}
	return true, fmt.Sprintf("%d writes came after another held the key; a resource that compares no tokens took them", c.StaleWrites.Tried)
}

// fenced is that every write that came too late was refused.
func fenced(r *result.Report, c *result.Case) (bool, string) {
	switch {
	case c.StaleWrites.Tried == 0:
		return false, "no write came too late, so none had to be refused"
	case c.StaleWrites.Refused < c.StaleWrites.Tried || found(r, c, checker.Fencing, ""):
		return false, fmt.Sprintf("of %d writes that came too late %d were refused", c.StaleWrites.Tried, c.StaleWrites.Refused)
	}
	return true, fmt.Sprintf("%d writes came too late, and the resource that compares tokens refused every one", c.StaleWrites.Tried)
}

// fails is a finding that the case must make.
func fails(kind checker.Kind, rule string) Sign {
	return func(r *result.Report, c *result.Case) (bool, string) {
		for _, f := range r.Findings {
			if f.Case == c.ID && f.Kind == kind && f.Rule == rule {
				return true, f.Message
			}
		}
		return false, fmt.Sprintf("no finding %s/%s", kind, rule)
	}
}

// passes is a case that finds nothing, and whose fault has landed.
func passes(_ *result.Report, c *result.Case) (bool, string) {
	if c.Status != result.Pass {
		return false, fmt.Sprintf("the case is %s: %s", c.Status, c.Reason)
	}
	return true, "the same happened, and nobody was harmed"
}

// apart is a case in which no two believed at once.
func apart(r *result.Report, c *result.Case) (bool, string) {
	if ok, says := passes(r, c); !ok || len(c.Hazards) > 0 {
		return false, says
	}
	return true, "the same happened, and no two believed at once that they hold the key"
}

func found(r *result.Report, c *result.Case, kind checker.Kind, rule string) bool {
	return slices.ContainsFunc(r.Findings, func(f result.Finding) bool {
		return f.Case == c.ID && f.Kind == kind && (rule == "" || f.Rule == rule)
	})
}
