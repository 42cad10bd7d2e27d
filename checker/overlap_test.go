package checker

import (
	"testing"

	"github.com/lockcheck/lockcheck/lockspec"
)

// overtaken is a pause of n1 from 20 to 200 in which t1's lease of 100 ends
// and t2 is granted the key; t1 learns of it at 202.
const overtaken = `
	0   p1 acquire
	5   p1 acquire ok t1 lease=100 token=1
	10  p1 write t1
	20  fault f1 pause n1 start
	21  fault f1 pause n1 landed
	120 p2 acquire
	125 p2 acquire ok t2 lease=1000 token=2
	130 p2 write t2
	130 fenced read t2 token=2 version=0 accepted
	140 p2 write t2 ok
	140 fenced write t2 token=2 version=1 based=0 accepted
	200 fault f1 pause n1 end
	201 p1 write t1 ok
	201 fenced write t1 token=1 version=1 based=0 refused
	202 p1 lost t1 driver=202
	300 p2 release t2
	301 p2 release t2 ok
`

func TestOverlap(t *testing.T) {
	auto := "auto-renew=proven"
	lease := head(lockspec.Leased)
	judgeAll(t, []judged{
		{"two entitled", lease, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			10 p2 acquire
			15 p2 acquire ok t2 lease=100
			50 p1 release t1
			60 p2 release t2`, "fail overlap/entitled"},
		{"apart by one index in one nanosecond", lease, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			10 p2 acquire
			15 p1 release t1
			15 p2 acquire ok t2 lease=100`, "pass"},
		{"closer than ε to the end of a lease", lease, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			90 p2 acquire
			98.5 p2 acquire ok t2 lease=100`, "inconclusive ?overlap/entitled"},
		{"a release that was called may have landed, whatever it answered", lease, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			20 p1 release t1
			22 p1 release t1 unavailable
			30 p2 acquire
			35 p2 acquire ok t2 lease=100`, "pass"},
		{"readers share", head(lockspec.Leased, "shared=proven"), `
			0  p1 acquire mode=read
			5  p1 acquire ok t1 lease=100 mode=read
			10 p2 acquire mode=read
			15 p2 acquire ok t2 lease=100 mode=read`, "pass"},
		{"a writer excludes readers", head(lockspec.Leased, "shared=proven"), `
			0  p1 acquire mode=read
			5  p1 acquire ok t1 lease=100 mode=read
			10 p2 acquire mode=write
			15 p2 acquire ok t2 lease=100 mode=write`, "fail overlap/entitled"},
		{"an owner shares with itself where locks are reentrant", head(lockspec.Memory, "reentrant=proven"), `
			0  p1 acquire
			5  p1 acquire ok t1
			10 p1 acquire
			15 p1 acquire ok t2
			20 p1 release t2
			21 p1 release t2 ok
			30 p1 release t1
			31 p1 release t1 ok`, "pass"},
		{"but not where they are not", head(lockspec.Memory), `
			0  p1 acquire
			5  p1 acquire ok t1
			10 p1 acquire
			15 p1 acquire ok t2`, "fail overlap/entitled"},
		{"and nobody else, until its last release", head(lockspec.Memory, "reentrant=proven"), `
			0  p1 acquire
			5  p1 acquire ok t1
			10 p1 acquire
			15 p1 acquire ok t2
			20 p1 release t2
			21 p1 release t2 ok
			24 p2 acquire
			25 p2 acquire ok t3
			30 p1 release t1
			31 p1 release t1 ok`, "fail overlap/entitled ownership/ok-after-successor"},
		{"a grant answered after its caller gave up is a grant", lease, `
			0  p1 acquire
			5  p1 acquire unavailable
			10 p2 acquire
			15 p2 acquire ok t2 lease=100
			20 p1 late ok t1 of=0 lease=100
			30 p1 release t1`, "fail overlap/entitled"},

		{"believed without a cause", head(lockspec.Leased, auto), `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			120 p2 acquire
			125 p2 acquire ok t2 lease=100`, "fail overlap/believed-without-cause"},
		{"nobody renews: belief ends with the paper", lease, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			120 p2 acquire
			125 p2 acquire ok t2 lease=100`, "pass"},
		{"a process that asked for no renewal", head(lockspec.Leased, auto), `
			0   p1 acquire renew=manual
			5   p1 acquire ok t1 lease=100
			120 p2 acquire
			125 p2 acquire ok t2 lease=100`, "pass"},
		{"belief between doubt and sure is none", head(lockspec.Leased, auto), `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			50  p1 doubt t1
			120 p2 acquire
			125 p2 acquire ok t2 lease=100
			130 p2 release t2
			140 p1 sure t1`, "pass"},
		{"belief after sure is", head(lockspec.Leased, auto), `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			50  p1 doubt t1
			60  p1 sure t1
			120 p2 acquire
			125 p2 acquire ok t2 lease=100`, "fail overlap/believed-without-cause"},
		{"within the loss bound it is the latency of the signal", head(lockspec.Leased, auto, "loss-signal=proven", "loss=50"), `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			120 p2 acquire
			125 p2 acquire ok t2 lease=100
			140 p1 lost t1 driver=140`, "fail renewal/lost"},
		{"a session that the service ended early, undeclared", head(lockspec.Session, "loss-signal=proven", "loss=50", "takeover=100"), `
			0  p1 acquire
			5  p1 acquire ok t1
			20 fault f1 partition link:n1 start
			20 fault f1 partition link:n1 landed
			30 p2 acquire
			35 p2 acquire ok t2
			60 p1 lost t1 driver=60`, "fail overlap/paper-cut-by-service"},

		{"a declared pause, contained", head(lockspec.Leased, "pause", auto, "loss-signal=proven", "fencing=proven", "loss=50"), overtaken, "hazard !pause"},
		{"not declared", head(lockspec.Leased, auto), overtaken, "fail overlap/undeclared-hazard"},
		{"above the ceiling of its class", head(lockspec.Memory, "pause", auto), overtaken, "fail overlap/undeclared-hazard"},
		{"a fault that did not land", head(lockspec.Leased, "pause", auto), cutLine(overtaken, "landed"), "inconclusive ?overlap/believed-without-cause"},
		{"a declared pause, never signalled", head(lockspec.Leased, "pause", auto, "loss-signal=proven", "loss=50"), cutLine(overtaken, "lost"), "fail overlap/not-contained"},
		{"stale writes get through", head(lockspec.Leased, "pause", auto, "fencing=proven"), replace(overtaken, "version=1 based=0 refused", "version=2 based=0 accepted"),
			"fail fencing/register-accepted-stale-token fencing/fenced-update-lost overlap/not-contained"},
		{"nobody wrote after the takeover", head(lockspec.Leased, "pause", auto, "fencing=proven"), cutLine(overtaken, "fenced"), "inconclusive ?fencing/never-fenced !pause"},
		{"an old fault excuses nothing", head(lockspec.Leased, "pause", auto), replace(overtaken, "200 fault f1 pause n1 end", "200 fault f2 pause n1 end", "21  fault f1 pause n1 landed", "21  fault f1 pause n1 landed\n 22 fault f1 pause n1 end", "120 p2", "140 p2", "125 p2", "145 p2", "130 p2", "146 p2", "130 fen", "147 fen", "140 p2 w", "148 p2 w", "140 fen", "148 fen"),
			"fail overlap/believed-without-cause"},

		{"an operator's break must only be contained", head(lockspec.Leased, auto, "loss-signal=proven", "loss=50", "every=30"), `
			0  p1 acquire
			5  p1 acquire ok t1 lease=1000
			20 fault f1 break key:k start
			20 fault f1 break key:k landed
			21 fault f1 break key:k end
			30 p2 acquire
			35 p2 acquire ok t2 lease=1000
			60 p1 lost t1 driver=60`, "pass"},
		{"and was not", head(lockspec.Leased, auto, "loss-signal=proven", "loss=50", "every=30"), `
			0  p1 acquire
			5  p1 acquire ok t1 lease=1000
			20 fault f1 break key:k start
			20 fault f1 break key:k landed
			21 fault f1 break key:k end
			30 p2 acquire
			35 p2 acquire ok t2 lease=1000
			500 p1 lost t1 driver=500`, "fail overlap/not-contained"},
		{"a flush that was declared, paper only", head(lockspec.Leased, "evict"), `
			0  p1 acquire
			5  p1 acquire ok t1 lease=1000
			20 fault f1 flush service start
			20 fault f1 flush service landed
			21 fault f1 flush service end
			30 p2 acquire
			35 p2 acquire ok t2 lease=1000`, "hazard !evict"},
		{"that was not", lease, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=1000
			20 fault f1 flush service start
			20 fault f1 flush service landed
			21 fault f1 flush service end
			30 p2 acquire
			35 p2 acquire ok t2 lease=1000`, "fail overlap/paper-cut-by-service"},
		{"nothing from a paper whose holder released in between", lease, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=1000
			20 fault f1 flush service start
			20 fault f1 flush service landed
			21 fault f1 flush service end
			25 p1 release t1
			30 p2 acquire
			35 p2 acquire ok t2 lease=1000`, "pass"},

		{"a lost update that no interval shows", head(lockspec.Memory), overwritten, "fail overlap/lost-update"},
		{"a write that outlived the lease that was checked", lease, replace(overwritten, "ok t1", "ok t1 lease=15", "ok t2", "ok t2 lease=15"), "pass"},
		{"a write that the harness itself held back", head(lockspec.Memory), "0 fault f1 delayed-write n1 start\n0 fault f1 delayed-write n1 landed\n" + overwritten, "pass"},
	})
}

// overwritten: t1 writes on top of what it read, although t2 has written since.
const overwritten = `
	0  p1 acquire
	1  p1 acquire ok t1
	2  open read t1 version=0
	10 p1 release t1
	11 p1 release t1 ok
	12 p2 acquire
	13 p2 acquire ok t2
	14 open read t2 version=0
	15 open write t2 version=1 based=0
	16 open write t1 version=2 based=0
	20 p2 release t2
	21 p2 release t2 ok
`

func TestExclusiveProfile(t *testing.T) {
	stopped := head(lockspec.Leased, "pause", "partition", "auto-renew=proven", "loss=50")
	stopped.Profile = lockspec.ExclusiveHolder
	judgeAll(t, []judged{
		{"two believers while the former does not run", stopped, overtaken, "hazard !pause"},
		{"two running believers", stopped, replace(overtaken, "pause n1", "partition link:n1"), "fail overlap/two-running-holders"},
	})
}

func TestPermits(t *testing.T) {
	two := head(lockspec.Leased, "capacity=2")
	const taken = `
		0 p1 acquire
		1 p1 acquire ok t1 lease=100
		2 p2 acquire
		3 p2 acquire ok t2 lease=100
	`
	judgeAll(t, []judged{
		{"two of two", two, taken, "pass"},
		{"three of two", two, taken + `
			4 p3 acquire
			5 p3 acquire ok t3 lease=100`, "fail overlap/entitled"},
		{"a third after a release was called", two, taken + `
			4 p1 release t1
			4 p3 acquire
			5 p3 acquire ok t3 lease=100`, "pass"},
		{"a third after a lease", two, taken + `
			104 p3 acquire
			105 p3 acquire ok t3 lease=100`, "pass"},
		{"a third as good as after a lease", two, taken + `
			90 p3 acquire
			98.5 p3 acquire ok t3 lease=100`, "inconclusive ?overlap/entitled"},
		{"two at once", two, `
			0 p1 acquire
			1 p1 acquire ok t1 lease=100
			2 p2 acquire count=2
			3 p2 acquire ok t2 lease=100 count=2`, "fail overlap/entitled"},
		{"three believe", head(lockspec.Leased, "capacity=2", "auto-renew=proven"), taken + `
			104 p3 acquire
			125 p3 acquire ok t3 lease=100`, "fail overlap/believed-without-cause"},
		{"three believe, one was stopped", head(lockspec.Leased, "capacity=2", "auto-renew=proven", "pause"), `
			0   p1 acquire
			1   p1 acquire ok t1 lease=100
			10  fault f1 pause n1 start
			10  fault f1 pause n1 landed
			100 p2 acquire
			101 p2 acquire ok t2 lease=100
			104 p3 acquire
			125 p3 acquire ok t3 lease=100
			150 fault f1 pause n1 end`, "hazard !pause"},
	})
}

func TestChain(t *testing.T) {
	lease := head(lockspec.Leased)
	// Each two of these fit: t1 and t2, t2 and t3, t1 and t3; all three do not:
	// the first is granted at 0 at the earliest, the second at 98, the third at 196.
	const three = `
		0   p1 acquire
		5   p2 acquire
		6   p3 acquire
		90  p1 acquire ok t1 lease=100 T1
		120 p2 acquire ok t2 lease=100 T2
		150 p3 acquire ok t3 lease=100 T3
	`
	judgeAll(t, []judged{
		{"a pairwise right triple", lease, replace(three, "T1", "token=1", "T2", "token=2", "T3", "token=3"), "fail overlap/chain"},
		{"without tokens a slow tenure makes it a doubt", lease, replace(three, " T1", "", " T2", "", " T3", ""), "inconclusive ?overlap/chain"},
		{"a slow reply sorts wrongly by return", lease, `
			0  p1 acquire
			20 p2 acquire
			23 p2 acquire ok t2 lease=100 token=2
			25 p1 acquire ok t1 lease=15 token=1`, "pass"},
	})
}
