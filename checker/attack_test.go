package checker

import (
	"testing"

	"github.com/lockcheck/lockcheck/lockspec"
)

// TestAttacks: histories that were written to make the verdict wrong, and did.
func TestAttacks(t *testing.T) {
	lease := head(lockspec.Leased)
	exclusive := head(lockspec.ReplicatedLease, "failover")
	exclusive.Profile = lockspec.ExclusiveHolder
	pair := head(lockspec.Leased, "pause", "auto-renew=proven", "capacity=2")
	judgeAll(t, []judged{
		{"losses told after the releases hide no overlap", head(lockspec.Leased, "loss-signal=proven", "loss=50"), `
			0   p1 acquire
			2   p2 acquire
			5   p1 acquire ok t1 lease=2000
			6   p2 acquire ok t2 lease=2000
			500 p1 release t1
			505 p1 release t1 ok
			506 p1 lost t1
			600 p2 release t2
			605 p2 release t2 ok
			606 p2 lost t2`, "fail overlap/entitled"},
		{"a kill that nobody saw the end of does not kill the next life", lease, `
			10  fault f1 kill n1 start
			11  fault f1 kill n1 landed
			100 p1 acquire
			102 p2 acquire
			105 p1 acquire ok t1 lease=2000
			115 p2 acquire ok t2 lease=2000
			500 p1 release t1
			600 p2 release t2`, "fail overlap/entitled"},
		{"a kill that did not land killed nobody, and is no proof either", lease, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=2000
			100 fault f1 kill n1 start
			200 p2 acquire
			205 p2 acquire ok t2 lease=2000
			300 p1 held t1
			301 p1 held t1 ok`, "inconclusive ?overlap/entitled"},
		{"a machine that slept measured no lease", lease, `
			0    p1 acquire
			5    p1 acquire ok t1 lease=2000
			700  fault f1 suspend clock:controller observed 699 700
			800  p2 acquire
			805  p2 acquire ok t2 lease=2000
			1000 p2 release t2`, "inconclusive ?overlap/entitled"},
		{"sessions have no lease that a clock could spoil", head(lockspec.Session), `
			0    p1 acquire
			2    p2 acquire
			5    p1 acquire ok t1
			105  p2 acquire ok t2
			900  p1 release t1
			1000 p2 release t2
			1100 fault f1 clock-step clock:controller observed 1100 1100`, "fail overlap/entitled"},
		{"a stepped clock spoils an ok after the end", head(lockspec.Leased, "owner-checked=proven", "takeover=100"), `
			0    p1 acquire
			5    p1 acquire ok t1 lease=2000
			1000 fault f1 clock-step clock:controller observed 1000 1000
			2500 p1 release t1
			2505 p1 release t1 ok`, "inconclusive ?ownership/ok-after-expiry"},
		{"readers that write lose updates of their own", head(lockspec.Leased, "shared=proven"), `
			0  p1 acquire mode=read
			5  p1 acquire ok t1 lease=2000
			10 p2 acquire mode=read
			15 p2 acquire ok t2 lease=2000
			20 p1 write t1
			20 open read t1 version=0
			30 p2 write t2
			30 open read t2 version=0
			60 p1 write t1 ok
			60 open write t1 version=1 based=0
			70 p2 write t2 ok
			70 open write t2 version=2 based=0`, "pass"},
		{"profile exclusive and nobody that surely believed twice", exclusive, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=2000
			300 fault f1 failover service start
			301 fault f1 failover service landed
			400 fault f1 failover service end
			500 p2 acquire
			510 p2 acquire ok t2 lease=2000
			700 p1 lost t1
			900 p2 release t2`, "hazard !failover"},
		{"of two faults the one that the tenure survived took nothing", head(lockspec.ReplicatedLease, "failover"), `
			0   p1 acquire
			5   p1 acquire ok t1 lease=2000
			50  fault f0 restart service start
			51  fault f0 restart service landed
			100 fault f0 restart service end
			120 p1 held t1
			121 p1 held t1 ok
			300 fault f1 failover service start
			301 fault f1 failover service landed
			400 fault f1 failover service end
			500 p2 acquire
			510 p2 acquire ok t2 lease=2000
			700 p1 lost t1
			900 p2 release t2`, "hazard !failover"},
		{"a fault that did not land does not hide one that did", lease, `
			0   p1 acquire
			5   p1 acquire ok t1 lease=2000
			50  fault f0 evict key:k start
			60  fault f0 evict key:k end
			300 fault f1 restart service start
			301 fault f1 restart service landed
			400 fault f1 restart service end
			500 p2 acquire
			510 p2 acquire ok t2 lease=2000
			600 p1 release t1
			900 p2 release t2`, "fail overlap/paper-cut-by-service"},
		{"who was shut down believes no more", head(lockspec.Leased, "auto-renew=proven"), `
			0   p1 acquire
			5   p1 acquire ok t1 lease=2000
			100 p1 shutdown
			110 p2 acquire
			115 p2 acquire ok t2 lease=2000
			120 p1 shutdown ok
			200 p2 release t2`, "pass"},
		{"one of two overtaken permits is excused, the other is not", pair, `
			0    p1 acquire
			5    p1 acquire ok t1 lease=2000
			10   p2 acquire
			15   p2 acquire ok t2 lease=2000
			100  fault f1 pause n1 start
			101  fault f1 pause n1 landed
			3000 p3 acquire
			3005 p3 acquire ok t3 lease=2000
			3010 p4 acquire
			3015 p4 acquire ok t4 lease=2000
			3500 p2 held t2
			3501 p2 held t2 ok
			3600 p3 release t3
			3610 p4 release t4
			3620 p2 release t2
			4000 fault f1 pause n1 end
			4001 p1 lost t1 driver=4001`, "fail overlap/believed-without-cause !pause !pause"},
		{"a pause of the client is no reason to revive a lease", head(lockspec.Leased, "pause"), `
			0    p1 acquire
			5    p1 acquire ok t1 lease=2000
			500  fault f1 pause n1 start
			501  fault f1 pause n1 landed
			4000 fault f1 pause n1 end
			4100 p1 renew t1 ask=2000
			4105 p1 renew t1 ok lease=2000
			4200 p1 release t1`, "fail renewal/revived"},
		{"a stall is a pause whatever the line says", head(lockspec.Leased, "auto-renew=proven"), `
			0    p1 acquire
			5    p1 acquire ok t1 lease=2000
			2950 p2 acquire
			2953 p2 acquire ok t2 lease=2000
			3100 fault f1 stall n1 observed 900 3100
			3105 p1 lost t1 driver=3101
			3300 p2 release t2`, "inconclusive ?overlap/undeclared-hazard"},
		{"a check that says held long after the end", head(lockspec.Leased, "hold-check=proven"), `
			0    p1 acquire renew=manual
			5    p1 acquire ok t1 lease=2000
			3000 p2 acquire
			3005 p2 acquire ok t2 lease=2000
			4000 p1 held t1
			4001 p1 held t1 ok
			4100 p2 release t2`, "fail loss-signal/held-after-end"},
		{"a section that tells no lease promises nothing", head(lockspec.Leased, "pause", "auto-renew=proven"), `
			0    p1 section ask=2000
			5    p1 entered t1 token=1
			50   fault f1 pause n1 start
			51   fault f1 pause n1 landed
			3000 p2 acquire
			3005 p2 acquire ok t2 lease=2000 token=2
			3100 p2 release t2
			3101 p2 release t2 ok
			4000 fault f1 pause n1 end
			4001 p1 held t1
			4002 p1 held t1 ok
			4050 p1 left t1
			4051 p1 section lost`, "hazard !pause"},
		{"a session that was ended was told so a minute later", head(lockspec.Session, "loss-signal=proven", "loss=1000"), `
			0     p1 acquire
			5     p1 acquire ok t1
			100   fault f1 terminate n1 start
			101   fault f1 terminate n1 landed
			200   fault f1 terminate n1 end
			60000 p1 lost t1 driver=60000`, "fail loss-signal/too-late"},
		{"two refused by each other, as quorum locks do", head(lockspec.Leased, "auto-renew=proven", "takeover=100"), `
			0    p1 acquire
			5    p1 acquire ok t1 lease=2000
			100  fault f1 kill n1 start
			101  fault f1 kill n1 landed
			110  fault f1 kill n1 end
			2300 p2 acquire ask=2000
			2301 p3 acquire ask=2000
			2310 p2 acquire busy
			2311 p3 acquire busy
			4500 p2 acquire
			4505 p2 acquire ok t2 lease=2000
			4600 p2 release t2`, "pass"},
	})
}
