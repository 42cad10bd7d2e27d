package checker

import (
	"testing"

	"github.com/lockcheck/lockcheck/lockspec"
)

func TestLossSignal(t *testing.T) {
	manual := head(lockspec.Leased, "loss-signal=proven", "loss=50", "margin=20")
	auto := head(lockspec.Leased, "loss-signal=proven", "auto-renew=proven", "loss=50", "margin=20", "pause")
	judgeAll(t, []judged{
		{"in time", manual, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			120 p1 lost t1 driver=120`, "pass"},
		{"too late", manual, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			160 p1 lost t1 driver=160`, "fail loss-signal/too-late"},
		{"too late only by when it arrived", manual, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			160 p1 lost t1`, "pass"},
		{"never, though it worked on", manual, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			300 p1 held t1
			301 p1 held t1 ok`, "fail loss-signal/never"},
		{"never, but nobody knows whether the client lives", manual, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			300 p2 acquire key=other
			301 p2 acquire busy key=other`, "fail contract/unexplained-busy"},
		{"released before it was due", manual, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			130 p1 release t1
			131 p1 release t1 lost`, "pass"},
		{"a stop at the time makes it due at the resume", manual, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			90  fault f1 pause n1 start
			90  fault f1 pause n1 landed
			200 fault f1 pause n1 end
			220 p1 lost t1 driver=220`, "pass"},
		{"and not later", manual, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			90  fault f1 pause n1 start
			90  fault f1 pause n1 landed
			200 fault f1 pause n1 end
			270 p1 lost t1 driver=270`, "fail loss-signal/too-late"},
		{"a stall makes it a doubt", manual, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			270 fault f1 stall n1 observed 90 110
			270 p1 lost t1 driver=270`, "inconclusive ?loss-signal/too-late"},
		{"a stall of the service makes it one too", manual, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			270 fault f1 stall service observed 90 110
			270 p1 lost t1 driver=270`, "inconclusive ?loss-signal/too-late"},
		{"a lock that renews itself unseen has no end that is known", auto, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			900 p1 held t1
			901 p1 held t1 ok`, "pass"},
		{"false", manual, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			60 p1 lost t1 driver=60`, "fail loss-signal/false"},
		{"early, within the margin", manual, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			85 p1 lost t1 driver=85`, "pass"},
		{"after its release", manual, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			50 p1 release t1
			60 p1 lost t1 driver=60
			61 p1 release t1 ok`, "pass"},
		{"after the shutdown", manual, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			50 p1 shutdown
			60 p1 lost t1 driver=60`, "pass"},
		{"a refused check counts as one", head(lockspec.Leased), `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			50 p1 held t1
			51 p1 held t1 not-held`, "fail loss-signal/false"},
		{"a refused first release counts as one", head(lockspec.Leased), `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			50 p1 release t1
			51 p1 release t1 not-held`, "fail loss-signal/false"},
		{"a refused second release does not", head(lockspec.Leased), `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			50 p1 release t1
			51 p1 release t1 ok
			52 p1 release t1
			53 p1 release t1 not-held`, "pass"},
		{"a cause", manual, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			20 fault f1 partition link:n1 start
			20 fault f1 partition link:n1 landed
			60 p1 lost t1 driver=60
			70 fault f1 partition link:n1 end`, "pass"},
		{"a cause that is tolerated", head(lockspec.Leased, "loss-signal=proven", "tolerates=50"), `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			20 fault f1 partition link:n1 start
			20 fault f1 partition link:n1 landed
			40 fault f1 partition link:n1 end
			60 p1 lost t1 driver=60`, "fail loss-signal/false"},
		{"a session that was called lost with nothing wrong", head(lockspec.Session, "loss-signal=proven"), `
			0  p1 acquire
			5  p1 acquire ok t1
			60 p1 lost t1 driver=60`, "fail loss-signal/false"},
	})
}

func TestRenewal(t *testing.T) {
	auto := head(lockspec.Leased, "auto-renew=proven", "pause")
	lease := head(lockspec.Leased)
	judgeAll(t, []judged{
		{"lost though it renews itself", auto, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			120 p1 lost t1 driver=120`, "fail renewal/lost"},
		{"not held though it renews itself", auto, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			120 p1 release t1
			121 p1 release t1 not-held`, "fail renewal/lost"},
		{"a pause explains it", auto, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			20  fault f1 pause n1 start
			20  fault f1 pause n1 landed
			110 fault f1 pause n1 end
			120 p1 lost t1 driver=120`, "pass"},
		{"a lease that had run out was renewed", lease, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			110 p1 renew t1 ask=100
			111 p1 renew t1 ok lease=100`, "fail renewal/revived"},
		{"or may have been granted as late as its reply", lease, `
			0   p1 acquire
			15  p1 acquire ok t1 lease=100
			110 p1 renew t1 ask=100
			111 p1 renew t1 ok lease=100`, "pass"},
		{"an unknown renewal in between may have landed", lease, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			60  p1 renew t1 ask=100
			61  p1 renew t1 unavailable
			140 p1 renew t1 ask=100
			141 p1 renew t1 ok lease=100`, "pass"},
		{"once", lease, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			60  p1 renew t1 ask=100
			61  p1 renew t1 unavailable
			240 p1 renew t1 ask=100
			241 p1 renew t1 ok lease=100`, "fail renewal/revived"},
		{"declared, and nobody was granted the key", head(lockspec.Leased, "revives=proven"), `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			110 p1 renew t1 ask=100
			111 p1 renew t1 ok lease=100`, "pass"},
		{"declared, but somebody was", head(lockspec.Leased, "revives=proven"), `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			105 p2 acquire
			106 p2 acquire ok t2 lease=20
			130 p1 renew t1 ask=100
			131 p1 renew t1 ok lease=100`, "fail ownership/ok-after-successor renewal/revived"},
	})
}

func TestOwnership(t *testing.T) {
	lease := head(lockspec.Leased)
	judgeAll(t, []judged{
		{"a release of what another holds", lease, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			120 p2 acquire
			121 p2 acquire ok t2 lease=100
			130 p1 release t1
			131 p1 release t1 ok`, "fail ownership/ok-after-successor"},
		{"tokens tell who is later, where the intervals do not", lease, `
			0   p2 acquire
			1   p1 acquire
			5   p2 acquire ok t2 lease=10 token=2
			20  p1 acquire ok t1 lease=5 token=1
			30  p1 release t1
			31  p1 release t1 ok`, "pass"},
		{"readers release apart", head(lockspec.Leased, "shared=proven"), `
			0  p1 acquire mode=read
			5  p1 acquire ok t1 lease=100 mode=read
			10 p2 acquire mode=read
			11 p2 acquire ok t2 lease=100 mode=read
			20 p1 release t1
			21 p1 release t1 ok`, "pass"},
		{"twice", lease, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			20 p1 release t1
			21 p1 release t1 ok
			22 p1 release t1
			23 p1 release t1 ok`, "fail ownership/ok-after-release"},
		{"twice at once", lease, `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			20 p1 release t1
			21 p1 release t1
			22 p1 release t1 ok
			23 p1 release t1 ok`, "pass"},
		{"twice, as claimed", head(lockspec.Leased, "idempotent-release=proven"), `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			20 p1 release t1
			21 p1 release t1 ok
			22 p2 acquire
			23 p2 acquire ok t2 lease=100
			24 p1 release t1
			25 p1 release t1 ok`, "pass"},
		{"a renewal after the release", head(lockspec.Leased, "idempotent-release=proven"), `
			0  p1 acquire
			5  p1 acquire ok t1 lease=100
			20 p1 release t1
			21 p1 release t1 ok
			22 p1 renew t1 ask=100
			23 p1 renew t1 ok lease=100`, "fail ownership/ok-after-release"},
		{"an untouched lease that had ended", lease, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			300 p1 release t1
			301 p1 release t1 ok`, "pass"},
		{"where releases are proven to check the owner", head(lockspec.Leased, "owner-checked=proven", "takeover=50"), `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			300 p1 release t1
			301 p1 release t1 ok`, "fail ownership/ok-after-expiry"},
	})
}

// killed: the holder of a lease of 100 is killed at 20.
const killed = `
	0   p1 acquire
	5   p1 acquire ok t1 lease=100
	20  fault f1 kill n1 start
	21  fault f1 kill n1 end
`

func TestTakeover(t *testing.T) {
	bound := head(lockspec.Leased, "takeover=50")
	judgeAll(t, []judged{
		{"still busy when it was due", bound, killed + `
			200 p2 acquire
			201 p2 acquire busy`, "fail liveness/takeover contract/unexplained-busy"},
		{"not due yet", bound, killed + `
			160 p2 acquire
			161 p2 acquire busy`, "pass"},
		{"no bound", head(lockspec.Leased), killed + `
			900 p2 acquire
			901 p2 acquire busy`, "pass"},
		{"a wait that timed out", bound, killed + `
			200 p2 acquire wait=100
			300 p2 acquire timeout`, "fail liveness/takeover"},
		{"another holds", bound, killed + `
			180 p3 acquire
			181 p3 acquire ok t3 lease=100
			200 p2 acquire
			201 p2 acquire busy`, "pass"},
		{"an unknown acquisition may hold", bound, killed + `
			180 p3 acquire
			181 p3 acquire unavailable
			200 p2 acquire
			201 p2 acquire busy`, "inconclusive ?liveness/takeover"},
		{"a cut link may have held a renewal back", bound, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			10  fault f2 partition link:n1 start
			20  fault f1 kill n1 start
			21  fault f1 kill n1 end
			100 fault f2 partition link:n1 end
			200 p2 acquire
			201 p2 acquire busy`, "pass"},
		{"a release that was on its way", bound, killed + `
			22  p1 release t1
			100 p1 release t1 unavailable
			200 p2 acquire
			201 p2 acquire busy`, "pass"},
		{"a stopped owner is not gone", head(lockspec.Leased, "takeover=50", "auto-renew=proven"), replace(killed, "kill", "pause") + `
			400 p2 acquire
			401 p2 acquire busy`, "pass"},
	})
}

func TestBusy(t *testing.T) {
	plain := head(lockspec.Leased, "takeover=50", "strict-try=proven")
	judgeAll(t, []judged{
		{"nobody", plain, `
			0 p1 acquire
			1 p1 acquire busy`, "fail contract/unexplained-busy"},
		{"a renewal whose reply came after the loss", head(lockspec.Leased, "auto-renew=proven", "takeover=20", "pause"), `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			30  p1 renewed t1 lease=100 sent=29
			100 fault f1 stall n1 observed 60 100
			100 p1 lost t1 driver=100
			190 p2 acquire
			191 p2 acquire busy`, "pass"},
		{"an attempt that a stalled service held up", plain, `
			0  p1 acquire ask=100
			90 fault f1 stall service observed 10 80
			90 p1 acquire timeout
			95 p2 acquire
			96 p2 acquire busy`, "pass"},
		{"a stall of the service that is long over", plain, `
			0   p1 acquire ask=100
			90  fault f1 stall service observed 10 80
			90  p1 acquire timeout
			400 p2 acquire
			401 p2 acquire busy`, "fail contract/unexplained-busy"},
		{"another attempt, where tries are not strict", head(lockspec.Leased), `
			0 p1 acquire ask=100
			1 p1 acquire busy
			2 p2 acquire ask=100
			3 p2 acquire busy`, "fail contract/unexplained-busy"},
		{"two attempts at once, where tries are not strict", head(lockspec.Leased), `
			0 p1 acquire ask=100
			1 p2 acquire ask=100
			2 p1 acquire busy
			3 p2 acquire busy`, "pass"},
		{"two attempts at once, where they are", plain, `
			0 p1 acquire ask=100
			1 p2 acquire ask=100
			2 p1 acquire busy
			3 p2 acquire busy`, "fail contract/unexplained-busy contract/unexplained-busy"},
		{"a grant whose reply is slow", plain, `
			0 p1 acquire
			1 p2 acquire
			2 p2 acquire busy
			3 p1 acquire ok t1 lease=100`, "pass"},
		{"after the release was answered", plain, `
			0 p1 acquire
			1 p1 acquire ok t1 lease=100
			2 p1 release t1
			3 p1 release t1 ok
			4 p2 acquire
			5 p2 acquire busy`, "fail contract/unexplained-busy"},
		{"a release of unknown outcome", plain, `
			0 p1 acquire
			1 p1 acquire ok t1 lease=100
			2 p1 release t1
			3 p1 release t1 unavailable
			4 p2 acquire
			5 p2 acquire busy`, "pass"},
		{"not for ever", plain, `
			0 p1 acquire
			1 p1 acquire ok t1 lease=100
			2 p1 release t1
			3 p1 release t1 unavailable
			200 p2 acquire
			201 p2 acquire busy`, "fail contract/unexplained-busy"},
		{"an acquisition of which the driver is sure that it did nothing", plain, `
			0 p1 acquire
			1 p1 acquire unavailable none
			4 p2 acquire
			5 p2 acquire busy`, "fail contract/unexplained-busy"},
		{"a waiting writer explains a reader's", plain, `
			0 p1 acquire mode=read
			1 p1 acquire ok t1 lease=100 mode=read
			2 p2 acquire mode=write wait=50
			3 p3 acquire mode=read
			4 p3 acquire busy
			60 p2 acquire timeout`, "pass"},
		{"a reader does not", plain, `
			0 p1 acquire mode=read
			1 p1 acquire ok t1 lease=100 mode=read
			3 p3 acquire mode=read
			4 p3 acquire busy`, "fail contract/unexplained-busy"},
		{"permits that are free", head(lockspec.Leased, "capacity=2", "strict-try=proven"), `
			0 p1 acquire
			1 p1 acquire ok t1 lease=100
			3 p3 acquire
			4 p3 acquire busy`, "fail contract/unexplained-busy"},
		{"permits that are not", head(lockspec.Leased, "capacity=2", "strict-try=proven"), `
			0 p1 acquire
			1 p1 acquire ok t1 lease=100
			3 p3 acquire count=2
			4 p3 acquire busy count=2`, "pass"},
		{"the service was struck", plain, `
			0 fault f1 restart service start
			1 p3 acquire
			2 p3 acquire busy`, "pass"},
	})
}

func TestTokens(t *testing.T) {
	lease := head(lockspec.Leased)
	judgeAll(t, []judged{
		{"falls", lease, `
			0 p1 acquire
			1 p1 acquire ok t1 lease=10 token=7
			20 p2 acquire
			21 p2 acquire ok t2 lease=10 token=6`, "fail fencing/token-order"},
		{"repeats", lease, `
			0 p1 acquire
			1 p1 acquire ok t1 lease=10 token=7
			20 p2 acquire
			21 p2 acquire ok t2 lease=10 token=7`, "fail fencing/token-order"},
		{"repeats between acquisitions that meet", lease, `
			0 p1 acquire
			1 p2 acquire
			2 p1 acquire ok t1 lease=1 token=7
			20 p2 acquire ok t2 lease=100 token=7`, "fail fencing/token-repeated"},
		{"falls between acquisitions that meet", lease, `
			0 p1 acquire
			1 p2 acquire
			2 p2 acquire ok t2 lease=100 token=7
			3 p2 release t2
			4 p2 release t2 ok
			5 p1 acquire ok t1 lease=100 token=6`, "fail fencing/chain"},
		{"readers share one", head(lockspec.Leased, "shared=proven"), `
			0 p1 acquire mode=read
			1 p1 acquire ok t1 lease=100 token=7 mode=read
			2 p2 acquire mode=read
			3 p2 acquire ok t2 lease=100 token=7 mode=read`, "pass"},
		{"a reentrant owner keeps it", head(lockspec.Memory, "reentrant=proven"), `
			0 p1 acquire
			1 p1 acquire ok t1 token=7
			2 p1 acquire
			3 p1 acquire ok t2 token=7`, "pass"},
	})
}
