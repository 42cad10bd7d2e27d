package checker

import (
	"testing"

	"github.com/lockcheck/lockcheck/lockspec"
)

// TestExplored are histories of correct locks that exploration found accused,
// and beside each the one that must still be.
func TestExplored(t *testing.T) {
	suspends := head(lockspec.Leased, "suspend", "auto-renew=proven", "loss-signal=proven", "loss=50")
	clocks := head(lockspec.Leased, "server-clock", "auto-renew=proven", "loss-signal=proven", "fencing=proven", "loss=50", "every=33")
	asks := head(lockspec.Leased, "evict")
	holds := head(lockspec.Leased, "pause", "hold-check=proven", "loss=50")
	session := head(lockspec.Session, "restart", "partition", "loss-signal=proven", "loss=50", "takeover=100")
	bound := head(lockspec.Leased, "server-clock", "takeover=50")
	replica := head(lockspec.ReplicatedLease, "failover", "takeover=50")
	votes := head(lockspec.ReplicatedLease, "suspend", "server-clock", "auto-renew=proven", "loss-signal=proven", "hold-check=proven",
		"owner-checked=proven", "loss=50", "every=33")
	restarts := head(lockspec.ReplicatedLease, "restart", "auto-renew=proven", "loss-signal=proven", "hold-check=proven", "loss=5", "every=10")
	judgeAll(t, []judged{
		{"a grant whose reply slept writes long before the update is lost", suspends, slept, "pass"},
		{"which nothing had put to sleep", head(lockspec.Leased, "auto-renew=proven"), cutLine(slept, "fault"), "fail overlap/lost-update renewal/lost"},

		{"a holder that was overtaken before it came to the resource", clocks, twiceSet, "hazard !server-clock !server-clock"},
		{"whom the resource turned away though nobody had come after it", clocks, cutLine(twiceSet, "fenced read t2"), "fail overlap/not-contained ?fencing/never-fenced !server-clock"},

		{"the service's clock was set back while a dead holder's lease ran", bound, killed + `
			30  fault f2 server-clock clock:service start
			30  fault f2 server-clock clock:service landed
			30  fault f2 server-clock clock:service end
			200 p2 acquire
			201 p2 acquire busy`, "pass"},
		{"a new leader begins a dead holder's lease anew", bound, killed + `
			100 fault f2 elect service start
			100 fault f2 elect service landed
			150 fault f2 elect service end
			200 p2 acquire
			201 p2 acquire busy`, "pass"},
		{"a copy of a successor's acquisition keeps what a dead holder was due to leave", bound, killed + succeeds + `
			165 fault f2 duplicate link:n2 end
			200 p3 acquire
			201 p3 acquire busy`, "pass"},
		{"which may not be for the successor's lease when nothing was on its way twice", bound, killed + cutLine(succeeds, "duplicate") + `
			200 p3 acquire
			201 p3 acquire busy`, "fail contract/unexplained-busy"},
		{"a replica took over that had not heard of the successor's release", replica, returns + `
			200 p2 acquire
			201 p2 acquire busy`, "pass"},
		{"whose lease it keeps, and no more", replica, returns + `
			340 p2 acquire
			341 p2 acquire busy`, "fail liveness/takeover"},
		{"and without it a release is one", replica, cutLine(returns, "failover") + `
			200 p2 acquire
			201 p2 acquire busy`, "fail liveness/takeover contract/unexplained-busy"},
		{"once", bound, killed + `
			100 fault f2 elect service start
			100 fault f2 elect service landed
			150 fault f2 elect service end
			310 p2 acquire
			311 p2 acquire busy`, "fail liveness/takeover"},
		{"and nobody had declared that", head(lockspec.Leased, "takeover=50"), killed + `
			30  fault f2 server-clock clock:service start
			30  fault f2 server-clock clock:service landed
			30  fault f2 server-clock clock:service end
			200 p2 acquire
			201 p2 acquire busy`, "inconclusive ?liveness/takeover"},

		{"a copy of an acquisition is granted what its successor has released", asks, copied, "inconclusive ?ownership/ok-after-successor !evict"},
		{"none was on its way", asks, cutLine(copied, "duplicate"), "fail ownership/ok-after-successor !evict"},

		{"the answer that would have told of a loss was cut off", clocks, deafened, "hazard !server-clock"},
		{"a stopped node asked the service when it ran again", holds, stoppedBefore, "pass"},
		{"and its lease ends all the same", holds, replace(stoppedBefore, "560 p1", "660 p1", "561 p1", "661 p1"), "fail loss-signal/held-after-end"},

		{"a session that gave up by itself lives on at the server", session, lives, "pass"},
		{"for as long as the bound says", session, replace(lives, "150 p2", "250 p2", "151 p2", "251 p2"), "fail contract/unexplained-busy"},

		{"a restart took a grant whose reply was on its way", session, restarted, "pass"},
		{"a pause alone takes none", session, cutLine(restarted, "restart"), "fail overlap/paper-cut-by-service"},

		{"a client that says held does not know of the restart yet", session, unaware, "hazard !restart"},
		{"when it must have known, the restart took nothing", session, replace(unaware, "20 p1 held", "70 p1 held", "21 p1 held", "71 p1 held", "40 ", "80 ",
			"50 p1 release", "90 p1 release", "51 p1 release", "91 p1 release"), "fail overlap/paper-cut-by-service loss-signal/never"},

		{"after it was due", clocks, replace(deafened, "45  fault f2", "95  fault f2"), "fail overlap/not-contained"},

		{"a machine that slept since it was granted the key hears of it under its successor", votes, wokeUp, "pass"},
		{"which is the hazard suspend where nobody tells of losses", head(lockspec.ReplicatedLease, "suspend", "auto-renew=proven"), wokeUp, "hazard !suspend"},
		{"and no excuse where that is not declared", head(lockspec.ReplicatedLease, "server-clock", "auto-renew=proven", "loss-signal=proven", "hold-check=proven", "loss=50", "every=33"),
			wokeUp, "fail overlap/not-contained"},
		{"who was granted it while the first lease ran", votes, replace(wokeUp, "110 p2", "70  p2", "120 p2", "80  p2"), "fail overlap/not-contained"},
		{"who had the lower token", votes, replace(wokeUp, "acquire ok t2", "acquire ok t2 token=1", "acquire ok t1", "acquire ok t1 token=2"), "fail overlap/not-contained"},
		{"when nothing had put the machine to sleep", votes, cutLine(wokeUp, "suspend"), "fail overlap/not-contained"},
		{"when it fell asleep after its successor's grant", votes, replace(cutLine(wokeUp, "suspend n1 start"), "10  fault f1 suspend n1 landed\n", "",
			"155 p2", `140 fault f1 suspend n1 start
			140 fault f1 suspend n1 landed
			155 p2`), "fail overlap/not-contained"},
		{"and is let renew", votes, replace(wokeUp, "265 p1 lost t1 driver=265", `260 p1 renew t1
			265 p1 renew t1 ok lease=100`), "fail overlap/not-contained"},
		{"and is found the holder when it releases", votes, replace(cutLine(wokeUp, "t1 driver"), "t1 lost", "t1 ok"), "fail overlap/not-contained"},

		{"a restart took a grant whose reply another's overtook", restarts, outrun, "pass"},
		{"which had been answered before the other was asked for", restarts, replace(outrun, "0  p1 acquire\n", "", "14 p1", "9  p1 acquire\n14 p1"), "fail overlap/not-contained ownership/ok-after-successor"},
		{"or was answered before the other's last attempt was sent", restarts, replace(outrun, "ok t1 lease=100", "ok t1 lease=100 sent=10"), "fail overlap/not-contained"},

		{"two servers had voted long before a third made it a grant", votes, trickled, "pass"},
		{"which one server cannot", head(lockspec.Leased, "suspend", "loss-signal=proven", "loss=50"), trickled, "fail overlap/chain"},
		{"nor whoever gives out tokens", votes, replace(trickled, "ok t1", "ok t1 token=1", "ok t2", "ok t2 token=2", "ok t3", "ok t3 token=3"), "fail overlap/chain"},
		{"and nobody while the first votes stand", votes, replace(trickled, "104 p3", "80  p3", "110 p3", "90  p3"), "fail overlap/entitled"},
	})
}

// trickled: two servers vote for p1 at 1; its machine sleeps, and the rest hear
// of it at 45. The first votes are over at 101.
const trickled = `
	0   p1 acquire
	2   fault f1 suspend n1 start
	2   fault f1 suspend n1 landed
	10  p2 acquire
	12  p2 acquire ok t1 lease=100
	20  p2 release t1
	22  p2 release t1 ok
	45  fault f1 suspend n1 end
	50  p1 acquire ok t2 lease=100
	104 p3 acquire
	110 p3 acquire ok t3 lease=100
	112 p1 lost t2 driver=112
`

// slept: the reply to an acquisition came when its lease had long run out, to a
// machine whose clock had stood still. It writes under another's long work.
const slept = `
	0    p1 acquire
	5    fault f1 suspend n1 start
	5    fault f1 suspend n1 landed
	200  p2 acquire
	201  p2 acquire ok t2 lease=100
	201  open read t2 version=0
	300  fault f1 suspend n1 end
	301  p1 acquire ok t1 lease=100
	302  open read t1 version=0
	310  open write t1 version=1 based=0
	311  p1 release t1
	312  p1 release t1 lost
	1000 open write t2 version=2 based=0
	1001 p2 release t2
	1002 p2 release t2 ok
`

// twiceSet: the service's clock is set twice, the second holder hears late that
// it is one, and the third has come to the resource by then.
const twiceSet = `
	0  p3 acquire
	2  p3 acquire ok t1 lease=100 token=1
	2  fenced read t1 token=1 version=0 accepted
	10 fault f1 server-clock clock:service start
	10 fault f1 server-clock clock:service landed
	10 fault f1 server-clock clock:service end
	12 p1 acquire
	14 fault f2 server-clock clock:service start
	14 fault f2 server-clock clock:service landed
	14 fault f2 server-clock clock:service end
	14 p2 acquire
	16 p2 acquire ok t2 lease=100 token=3
	16 fenced read t2 token=3 version=0 accepted
	20 p1 acquire ok t3 lease=100 token=2
	20 fenced read t3 token=2 version=0 refused
	30 fenced write t1 token=1 version=0 based=0 refused
	31 p3 release t1
	32 p3 release t1 lost
	40 fenced write t2 token=3 version=1 based=0 accepted
	41 p2 release t2
	42 p2 release t2 ok
	50 fenced write t3 token=2 version=1 based=0 refused
	51 p1 release t3
	52 p1 release t3 lost
`

// copied: the key is evicted, and what its first holder asked arrives again when
// the second has released it.
const copied = `
	0  p1 acquire
	1  fault f1 duplicate link:n1 start
	1  fault f1 duplicate link:n1 landed
	5  p1 acquire ok t1 lease=500 token=1
	10 fault f2 evict key:k start
	10 fault f2 evict key:k landed
	10 fault f2 evict key:k end
	12 p2 acquire
	14 p2 acquire ok t2 lease=500 token=2
	20 p2 release t2
	21 p2 release t2 ok
	22 fault f1 duplicate link:n1 end
	30 p1 release t1
	31 p1 release t1 ok
`

// deafened: the renewal that follows a jump of the service's clock is answered
// on a link that is cut by then.
const deafened = `
	0   p1 acquire
	5   p1 acquire ok t1 lease=100 token=1
	8   fault f1 server-clock clock:service start
	8   fault f1 server-clock clock:service landed
	8   fault f1 server-clock clock:service end
	10  p2 acquire
	12  p2 acquire ok t2 lease=1000 token=2
	12  fenced read t2 token=2 version=0 accepted
	45  fault f2 partition link:n1 start
	45  fault f2 partition link:n1 landed
	110 fault f2 partition link:n1 end
	110 p1 lost t1 driver=110
	200 p2 release t2
	201 p2 release t2 ok
`

// lives: a session is cut off, its client gives up, and what it had sent arrives
// when the link heals.
const lives = `
	0   p1 acquire
	5   p1 acquire ok t1
	20  fault f1 partition link:n1 start
	20  fault f1 partition link:n1 landed
	60  p1 lost t1 driver=60
	90  fault f1 partition link:n1 end
	100 p1 release t1
	100 p1 release t1 lost
	150 p2 acquire
	151 p2 acquire busy
`

// restarted: the server restarts between a grant and its reply, and answers
// nobody for a while.
const restarted = `
	0   p1 acquire
	4   fault f1 restart service start
	4   fault f1 restart service landed
	4   fault f1 restart service end
	5   fault f2 server-pause service start
	5   fault f2 server-pause service landed
	6   p1 acquire ok t1
	7   p2 acquire
	50  fault f2 server-pause service end
	51  p2 acquire ok t2
	54  p1 lost t1 driver=54
	60  p2 release t2
	61  p2 release t2 ok
`

// stoppedBefore: a node that does not run is asked for a key.
const stoppedBefore = `
	0   fault f1 pause n1 start
	0   fault f1 pause n1 landed
	10  p1 acquire
	500 fault f1 pause n1 end
	502 p1 acquire ok t1 lease=100
	560 p1 held t1
	561 p1 held t1 ok
`

// unaware: a restart ends a session whose client still says held, and the server
// begins to answer nobody as the next grant arrives.
const unaware = `
	0  p1 acquire
	5  p1 acquire ok t1
	10 fault f1 restart service start
	10 fault f1 restart service landed
	10 fault f1 restart service end
	12 p2 acquire
	20 p1 held t1
	21 p1 held t1 ok
	40 fault f2 server-pause service start
	40 fault f2 server-pause service landed
	40 p2 acquire ok t2
	50 p1 release t1
	51 p1 release t1 lost
`

// succeeds: another is granted a dead holder's key in time, and gives it back;
// a copy of its acquisition is on its way.
const succeeds = `
	130 p2 acquire
	131 fault f2 duplicate link:n2 start
	131 fault f2 duplicate link:n2 landed
	132 p2 acquire ok t2 lease=20
	140 p2 release t2
	141 p2 release t2 ok
`

// wokeUp: a machine is suspended while the reply to its acquisition is on the
// way. Its lease runs out, another is granted the key, and stands when one of
// the servers' clocks jumps.
const wokeUp = `
	0   p1 acquire wait=1000
	10  fault f1 suspend n1 start
	10  fault f1 suspend n1 landed
	110 p2 acquire
	120 p2 acquire ok t2 lease=100
	130 fault f2 server-clock clock:service start
	130 fault f2 server-clock clock:service landed
	130 fault f2 server-clock clock:service end
	155 p2 renewed t2 lease=100
	190 p2 renewed t2 lease=100
	225 p2 renewed t2 lease=100
	255 fault f1 suspend n1 end
	256 p1 acquire ok t1 lease=100
	265 p1 lost t1 driver=265
	280 p1 release t1
	281 p1 release t1 lost
	300 p2 held t2
	301 p2 held t2 ok
	310 p2 release t2
	311 p2 release t2 ok
`

// outrun: servers restart when they have granted a key and before anybody heard
// of it. Another is granted it, and hears of that first.
const outrun = `
	0  p1 acquire
	2  p2 acquire
	4  fault f1 restart service start
	4  fault f1 restart service landed
	4  fault f1 restart service end
	8  p2 acquire ok t2 lease=100
	14 p1 acquire ok t1 lease=100
	27 p1 lost t1 driver=27
	30 p1 release t1
	31 p1 release t1 lost
	60 p2 held t2
	61 p2 held t2 ok
	70 p2 release t2
	71 p2 release t2 ok
`

// returns: a waiter is granted what a dead holder left, and has given it back
// when a replica takes over.
const returns = `
	0   p1 acquire
	5   p1 acquire ok t1 lease=100
	10  p3 acquire
	20  fault f1 kill n1 start
	21  fault f1 kill n1 end
	150 p3 acquire ok t2 lease=100
	173 p3 release t2
	174 p3 release t2 ok
	175 fault f2 failover service start
	175 fault f2 failover service landed
	176 fault f2 failover service end
`
