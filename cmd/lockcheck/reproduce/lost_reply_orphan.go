package reproduce

import (
	"context"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

var lostReplyOrphan = Story{
	Name:   "lost-reply-orphan",
	Title:  "An acquisition takes effect and its reply is lost. The lock tries again as somebody else, and waits for its own grant to run out.",
	Source: "leandromoreira/redlock-rb#76",
	Shown:  Play{Target: "broken://no-engine", Own: &lostReply, Sign: fails(checker.Residue, "orphan")},
	Cure:   "Who asks again asks as the same owner, and finds its grant; what is given up is released behind its back.",
	Cured:  Play{Target: "embedded", Own: &lostReply, Sign: passes},
}

var lostReply = contract.Case{ID: "Y01", Suite: contract.ChaosSuite, Group: "story", Level: contract.HarnessLevel, Since: "1",
	Name: "whoever waits is granted the free key though the first reply was lost",
	Why:  "a lock that takes its own grant for another's waits for itself",
	Run: func(ctx context.Context, e *contract.Env) {
		p := e.MustProcess(ctx, "n1")
		lost := e.MustInterfere(ctx, contract.DropReply, "acquire", e.Key("k"), 1)
		// The client gives an attempt up after a while, and has lost nothing but
		// that: the lease is long against it.
		lease := e.LeaseOf(6 * e.Lease)
		r := lockspec.Request{Key: e.Key("k"), Lease: lease, Wait: lease / 2, Renew: e.Renewal()}
		began := time.Now()
		t, err := p.Acquire(ctx, r)
		lost.MustAwait(ctx, time.Second)
		took := time.Since(began).Round(time.Millisecond)
		if err != nil {
			e.Story("nobody held the key, and after %s the acquisition was answered %s", took, lockspec.OutcomeOf(err))
			e.Fail(checker.Residue, "orphan", "an acquisition of a free key whose first reply was lost was answered %s after %s of a lease of %s: its own grant stood in its way", lockspec.OutcomeOf(err), took, lease)
			return
		}
		e.Story("granted after %s", took)
		_ = e.Release(ctx, t)
		t.Stop()
	}}
