package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// scenarioRow is one line of the table of scenarios.
type scenarioRow struct {
	id      string
	verdict string // what is expected of each class, in the order of classes
	name    string
	why     string
	hazard  lockspec.Hazard // that X in the verdict stands for
	serial  bool            // it strikes the service, or the whole machine
	needs   []lockspec.Feature
	plan    planner                          // nil: it has no step
	play    func(*scenario, context.Context) // nil: contenders, one of them struck in its work
	poll    float64                          // of the contenders, in leases; 0: a 25th
	nowhere string                           // why no harness can do it yet

	lane int // that it runs in; 0: alone. See inLanes
}

// classes are the columns of a verdict: P must pass, B must pass within the
// declared bound, X is a hazard that the class has and that is allowed only if
// declared, – does not apply.
var classes = []lockspec.Class{lockspec.Consensus, lockspec.Leased, lockspec.ReplicatedLease, lockspec.Session, lockspec.Memory}

// Expected is the letter of the scenario's verdict for the class, '-' where it
// does not apply, 0 where there is no such scenario.
func Expected(id string, class lockspec.Class) byte {
	for i := range scenarios {
		if scenarios[i].id == id {
			return scenarios[i].expected(class)
		}
	}
	return 0
}

func (row *scenarioRow) expected(class lockspec.Class) byte {
	if n := slices.Index(classes, class); n >= 0 && n < len(row.verdict) {
		return row.verdict[n]
	}
	return '-'
}

// scenarios is the table of scenarios, in the order of IDs.
var scenarios = inLanes([]scenarioRow{
	{id: "X01", verdict: "PPPPP", name: "holder killed: the key is obtainable within the bound",
		why: "a crashed worker must not keep everybody out, and must not be succeeded too early", plan: stroke("kill", 0, anywhen)},
	{id: "X02", verdict: "XXXX-", name: "holder stopped past its lease, then continued", hazard: lockspec.Pause,
		why: "a garbage collection, a swapped-out process, a suspended machine: it wakes up and writes as if it still held the key", plan: stroke("pause", 2)},
	{id: "X03", verdict: "PPPP-", name: "holder stopped for a moment: it loses nothing",
		why: "a lock that is lost whenever a process hiccups is not worth having", plan: stroke("pause", 0.02, holding(0.75))},
	{id: "X04", verdict: "XXXX-", name: "holder starved of the processor past its lease", hazard: lockspec.Pause,
		why: "on a machine that has too much to do, renewals come too late", plan: stroke("starve", 2.5, by(0.45))},
	{id: "X05", verdict: "PPPPP", name: "a holder that was stopped past its lease hears of it when it asks",
		why: "the timer that should have told it was starved; the question must look at the clock", hazard: lockspec.Pause, needs: []lockspec.Feature{lockspec.HoldCheck}, plan: stroke("pause", 2), play: (*scenario).asksAfterwards},
	{id: "X06", verdict: "PPPPP", name: "waiter killed: it leaves no orphan, and the others go on",
		why: "what a dead waiter had asked for must not be granted to it for ever", plan: stroke("kill", 0), play: (*scenario).killWaiter},
	{id: "X07", verdict: "PPPPP", name: "holder told to end: it gives the key back first",
		why: "a deployment must not cost a lease for every lock", plan: stroke("shutdown", 0, anywhen)},
	{id: "X08", verdict: "XXXX-", name: "holder's machine suspended past its lease", hazard: lockspec.Suspend,
		why: "a monotonic clock that stops with the machine does not see the lease end", plan: stroke("suspend", 2)},
	{id: "X09", verdict: "PPPPP", name: "a child process inherits nothing that keeps the lock",
		why: "a session lives as long as any process has its connection open", play: (*scenario).inheritsNothing},
	{id: "X10", verdict: "PPPPP", name: "a thousand acquisitions among random kills", lane: lanes,
		why: "what survives one crash may not survive the twentieth", play: (*scenario).randomKills},

	{id: "X11", verdict: "PPPP-", name: "requests to acquire are lost on their way",
		why: "what was never heard must not be held", plan: stroke("drop-request", 0.5, on("acquire", -1))},
	{id: "X12", verdict: "PPPP-", name: "acquisitions take effect and their replies are lost",
		why: "a lock that takes its own grant for another's locks itself out", plan: stroke("drop-reply", 0.75, on("acquire", -1))},
	{id: "X13", verdict: "PPPP-", name: "a renewal takes effect and its reply is lost", needs: []lockspec.Feature{lockspec.AutoRenew},
		why: "one lost packet must not cost a lock", plan: stroke("drop-reply", 0, on("renew", 1), atOnce, working(1.5))},
	{id: "X14", verdict: "PPPP-", name: "a release takes effect and its reply is lost",
		why: "a release that is tried again must not free the next owner's lock", plan: stroke("drop-reply", 0, on("release", 1))},
	{id: "X15", verdict: "PPPP-", name: "everything takes longer, up to more than a lease",
		why: "a grant that arrives when its lease is used up is none", plan: oneOf(stroke("latency", 2, by(0.1)), stroke("latency", 2.5, by(0.35)), stroke("latency", 3, by(0.6)))},
	{id: "X16", verdict: "PPPB-", name: "holder partitioned from the service", hazard: lockspec.Partition,
		why: "whoever cannot renew must stop before another is let in", plan: oneOf(stroke("partition", 2, holding(0.5)), stroke("cut-requests", 2, holding(0.5)), stroke("cut-mid-request", 2, holding(0.5)))},
	{id: "X17", verdict: "PPPB-", name: "holder's connections die and nobody tells it", hazard: lockspec.Partition,
		why: "no RST comes from a cable that was pulled", plan: stroke("half-open", 2, holding(0.5))},
	{id: "X18", verdict: "PPPP-", name: "requests of the holder pass, replies do not", hazard: lockspec.Partition,
		why: "renewals that are heard and not answered keep the key from everybody, and must end", plan: stroke("cut-replies", 2, holding(0.5))},
	{id: "X19", verdict: "PPPP-", name: "holder's connections are reset, again and again", hazard: lockspec.Partition,
		why: "who connects anew must neither lose its lock nor be granted it twice", plan: oneOf(stroke("reset", 0, working(1.5)), stroke("reset-storm", 1, by(0.1), holding(0.5)), stroke("refuse", 0.1, holding(0.75)))},
	{id: "X20", verdict: "PPPP-", name: "renewals are never answered", needs: []lockspec.Feature{lockspec.AutoRenew},
		why: "a call that hangs must not postpone the loss", plan: stroke("hold-reply", 2, on("renew", -1), holding(0.5), atOnce)},
	{id: "X21", verdict: "PPPP-", name: "messages crawl, or arrive when they are no longer true", hazard: lockspec.Partition,
		why: "a renewal that arrives after the loss must revive nothing", plan: oneOf(stroke("slow-link", 1.5, holding(0.5)), stroke("hold-request", 1.5, on("renew", -1), holding(0.5), atOnce))},
	{id: "X22", verdict: "PXXP-", name: "the service's name leads to another, empty server", hazard: lockspec.Restart,
		why: "a server that knows nothing grants everything", plan: stroke("endpoint-flip", 1.5, early, holding(0.5))},
	{id: "X23", verdict: "PPPP-", name: "a client with a hundred waiters still renews", needs: []lockspec.Feature{lockspec.AutoRenew, lockspec.Wait}, serial: true,
		why: "renewals that queue behind the application's calls come too late", play: (*scenario).manyWaiters},
	{id: "X24", verdict: "PPPP-", name: "the client library tries again behind the lock's back",
		why: "a request that is sent twice finds its own grant", nowhere: "retries are an option of a client library, which no target here turns on"},

	{id: "X25", verdict: "PXXX-", name: "service killed, started anew and empty", hazard: lockspec.Restart, serial: true,
		why: "what a server kept in memory is granted to somebody else", plan: stroke("restart", 0, early, working(1.5))},
	{id: "X26", verdict: "PPPX-", name: "service killed and started with its data", hazard: lockspec.Restart, serial: true,
		why: "what was promised and written down must be kept", plan: stroke("revive", 0, early, working(1.5))},
	{id: "X27", verdict: "PPPP-", name: "service stopped for less than a lease", serial: true,
		why: "renewals that waited for the service must not revive what was lost", plan: stroke("server-pause", 0.2, holding(0.75))},
	{id: "X28", verdict: "PPPP-", name: "service stopped for longer than a lease", serial: true,
		why: "when it runs again it has one holder, not two", plan: stroke("server-pause", 2, holding(0.5))},
	{id: "X29", verdict: "-XX--", name: "everything in the service is deleted", hazard: lockspec.Evict, serial: true,
		why: "a flush by hand takes every lock", plan: stroke("flush", 0, early, working(1.5))},
	{id: "X30", verdict: "-XX--", name: "the service's memory is full and it evicts locks", hazard: lockspec.Evict, serial: true,
		why: "a cache that is short of memory forgets what it promised", plan: stroke("evict-full", 0.05, early, working(1.5))},
	{id: "X31", verdict: "-PP--", name: "the service's memory is full and it refuses", serial: true,
		why: "who holds must be able to renew and to give back", plan: stroke("out-of-memory", 1, holding(0.5))},
	{id: "X32", verdict: "-PP--", name: "the service forgets its scripts", serial: true,
		why: "a script that is gone must be sent again, not taken for a loss", plan: stroke("script-flush", 0, working(1.5))},
	{id: "X33", verdict: "PPPP-", name: "the service stalls again and again", serial: true,
		why: "answers that may come or not are neither grants nor refusals", plan: stroke("server-stall", 1.5, by(0.125), holding(0.5))},
	{id: "X34", verdict: "PPPP-", name: "the service refuses every write", serial: true,
		why: "a full disk must cost locks, not let two hold one", plan: stroke("read-only", 1.5, holding(0.5))},
	{id: "X35", verdict: "PPPP-", name: "the service has no connection left to give", serial: true,
		why: "who has one keeps it; who has none is told so", plan: stroke("crowd", 1.5, holding(0.5))},
	{id: "X36", verdict: "P----", name: "the members choose a new leader while a lock is held", serial: true,
		why: "the new leader must not know less than the old one promised", plan: stroke("elect", 0.3, holding(0.75))},

	{id: "X37", verdict: "--X--", name: "primary dies before it has replicated the grant", hazard: lockspec.Failover, serial: true,
		why: "two hold one key, and both are right by what they were told", plan: stroke("failover", 1, early, holding(0.5))},
	{id: "X38", verdict: "--B--", name: "primary dies, and the replica has what was confirmed to it", hazard: lockspec.Failover, serial: true,
		why: "waiting for replicas narrows the window; it does not close it", plan: stroke("failover-kept", 1, early, holding(0.5))},
	{id: "X39", verdict: "--X--", name: "a bare counter of tokens falls back in a failover", hazard: lockspec.Failover,
		why: "a token that was given out before fences nothing", nowhere: "it needs a lock with a bare counter: see lockcheck reproduce redis-failover"},
	{id: "X40", verdict: "--X--", name: "the old primary goes on renewing while the new one grants", hazard: lockspec.Failover, serial: true,
		why: "a brain that is split lets two hold until somebody tells one", plan: stroke("split-brain", 1.5, early, holding(0.5))},
	{id: "X41", verdict: "--P--", name: "the primary becomes a replica", serial: true,
		why: "whoever cannot renew there must stop", plan: stroke("demote", 1.5, holding(0.5))},
	{id: "X42", verdict: "---X-", name: "a standby is promoted: sessions and their locks are gone", hazard: lockspec.Failover, serial: true,
		why: "advisory locks are not replicated; the next server grants at once", plan: stroke("failover", 1, early, holding(0.5))},
	{id: "X43", verdict: "---P-", name: "a client lands on a standby",
		why: "a standby that grants, grants what the primary has granted too", nowhere: "no way leads one node to a standby yet; contract case H09 covers a client that begins there"},
	{id: "X44", verdict: "P----", name: "the leader is cut off from the majority for longer than a lease", serial: true,
		why: "a leader that does not know it is none must not grant", plan: stroke("elect", 1.5, holding(0.5))},
	{id: "X45", verdict: "P----", name: "the majority is lost and comes back", serial: true,
		why: "whoever holds must not lose it to somebody who could not have been granted it", nowhere: "it needs a cluster of several members"},
	{id: "X46", verdict: "--X--", name: "one server of several is restarted empty", hazard: lockspec.Restart, serial: true,
		why: "a vote that is forgotten can be given twice", plan: stroke("member-restart", 0, early, working(1.5))},
	{id: "X47", verdict: "---P-", name: "a pooler that swaps sessions is put between", hazard: lockspec.Pooler, serial: true,
		why: "a lock of a session that another uses too is everybody's", plan: stroke("pooler", 1.5, holding(0.5))},

	{id: "X48", verdict: "-XX--", name: "the service's clock jumps ahead by more than a lease", hazard: lockspec.ServerClock, serial: true,
		why: "leases that are measured on a wall clock end when it is set", plan: stroke("server-clock", 0, by(1.5), early, working(1.5))},
	{id: "X49", verdict: "PPPP-", name: "the service's clock jumps back", serial: true,
		why: "leases then last longer, which costs time and no more", plan: stroke("server-clock", 0, by(-1), working(1))},
	{id: "X50", verdict: "PPPPP", name: "holder's wall clock jumps by an hour",
		why: "a lease is a duration, not a time of day", plan: stroke("client-clock", 1.5, jumping(time.Hour), holding(0.5))},
	{id: "X51", verdict: "PBBB-", name: "holder's clock runs a little fast or slow",
		why: "the margin is there for that", plan: oneOf(stroke("client-clock", 3, rate(1.09), holding(0.5)), stroke("client-clock", 3, rate(0.95), holding(0.5)))},
	{id: "X52", verdict: "--X--", name: "a replica whose clock is ahead is promoted", hazard: lockspec.Failover,
		why: "an expiry that was replicated as a time of day ends early there", nowhere: "no server here can be given a clock of its own"},

	{id: "X53", verdict: "PPPP-", name: "an operator breaks the lock",
		why: "its holder must hear of it within the bound", plan: stroke("break", 0, early, working(1.5))},
	{id: "X54", verdict: "PPPP-", name: "an operator breaks the lock, and another has it at once", poll: 0.005,
		why: "for as long as the former holder does not know, there are two", plan: stroke("break", 0, early, working(1.5))},
	{id: "X55", verdict: "PPPP-", name: "a stranger writes into what the lock keeps",
		why: "it is a loss or an error, and never a crash", plan: stroke("scribble", 0.75, holding(0.5))},
	{id: "X56", verdict: "PPPP-", name: "an operator makes the held key one that never expires",
		why: "a release must free it all the same", plan: stroke("persist", 0, working(0.5))},
	{id: "X57", verdict: "PPPPP", name: "a crowd of waiters: one is let in at a time", needs: []lockspec.Feature{lockspec.Wait}, serial: true,
		why: "a release that wakes a thousand is an attack on the service", play: (*scenario).herd},
	{id: "X58", verdict: "PPPPP", name: "a hot key: five seconds of short work", serial: true,
		why: "what is fast in a benchmark and unfair is no use to anybody", play: (*scenario).hotKey},
	{id: "X59", verdict: "PPPP-", name: "all clients are restarted in turn, under load", serial: true,
		why: "every deployment does it", play: (*scenario).rollingRestart},
	{id: "X60", verdict: "PPPP-", name: "clients of two versions share a key",
		why: "every deployment has both for a while", nowhere: "a run has one target; two versions of it would be two"},
	{id: "X62", verdict: "PPPP-", name: "a write that was let go in time arrives when the lease is over",
		why: "no check before a write can help it; only the resource can refuse", plan: stroke("delayed-write", 1.5), play: (*scenario).delayedWrite},
	{id: "X63", verdict: "--X--", name: "the clock of one server of several jumps", hazard: lockspec.ServerClock, serial: true,
		why: "a vote that ends early can be given twice", plan: stroke("member-clock", 0, by(1.5), early, working(1.5))},
	{id: "X64", verdict: "--P--", name: "one server of several stands still", serial: true,
		why: "a minority is nobody's loss", plan: stroke("member-pause", 1.5, holding(0.5))},
})

// working is how long the struck work takes, in leases.
func working(leases float64) detail {
	return func(s *Step, _ *rand.Rand, lease time.Duration) { s.Work = time.Duration(leases * float64(lease)) }
}

// inLanes spreads what does not have to run alone over the lanes.
func inLanes(rows []scenarioRow) []scenarioRow {
	next := 0
	for i := range rows {
		if row := &rows[i]; !row.serial && row.nowhere == "" && row.lane == 0 {
			row.lane = next%(lanes-1) + 1
			next++
		}
	}
	return rows
}

// Cases is the chaos suite, in the order of IDs.
func Cases() []contract.Case {
	var cases []contract.Case
	for i := range scenarios {
		row := &scenarios[i]
		cases = append(cases, contract.Case{ID: row.id, Suite: contract.ChaosSuite, Group: "chaos", Name: row.name, Why: row.why,
			Level: contract.ClientLevel, Since: "1", Needs: row.needs, Bound: "takeover", Serial: row.lane == 0, Lane: row.lane, Run: row.run, Limit: time.Minute})
	}
	return cases
}

// Scenario is a row of the table for a reader.
type Scenario struct {
	ID, Name, Why string
	Verdict       map[lockspec.Class]byte
	Hazard        lockspec.Hazard
	Faults        []string
	Needs         []string // of the harness
	Nowhere       string
}

// Letters is the verdict in the order of Columns.
func (s *Scenario) Letters() string {
	var b strings.Builder
	for _, c := range classes {
		b.WriteByte(s.Verdict[c])
	}
	return b.String()
}

// Columns are the classes in the order of a verdict's letters.
func Columns() (names []string) {
	for _, c := range classes {
		names = append(names, string(c))
	}
	return names
}

// Scenarios is the table of scenarios.
func Scenarios() []Scenario {
	var all []Scenario
	for i := range scenarios {
		row := &scenarios[i]
		s := Scenario{ID: row.id, Name: row.name, Why: row.why, Verdict: map[lockspec.Class]byte{}, Hazard: row.hazard, Nowhere: row.nowhere}
		for _, c := range classes {
			s.Verdict[c] = row.expected(c)
		}
		for _, name := range row.faults() {
			s.Faults = append(s.Faults, name)
			if needs := fault(name).Needs; needs != "" && !slices.Contains(s.Needs, needs) {
				s.Needs = append(s.Needs, needs)
			}
		}
		all = append(all, s)
	}
	return all
}

// faults are those that the row's plans may have, found by drawing many.
func (row *scenarioRow) faults() (names []string) {
	if row.plan == nil {
		return nil
	}
	for seed := range int64(64) {
		for _, s := range row.plan(contract.Rand(seed, row.id), time.Second) {
			if !slices.Contains(names, s.Fault) {
				names = append(names, s.Fault)
			}
		}
	}
	slices.Sort(names)
	return names
}

// applies says why the scenario is not for the target, if it is not.
func (row *scenarioRow) applies(class lockspec.Class) error {
	switch {
	case row.nowhere != "":
		return fmt.Errorf("%w: %s", lockspec.ErrUnsupported, row.nowhere)
	case row.expected(class) == '-':
		var whose []string
		for _, c := range classes {
			if row.expected(c) != '-' {
				whose = append(whose, string(c))
			}
		}
		return fmt.Errorf("%w: it is about locks of class %s", lockspec.ErrUnsupported, strings.Join(whose, ", "))
	}
	return nil
}
