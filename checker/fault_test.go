package checker

import (
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec"
)

// TestStalledServiceIsAsStalledNodes: this machine kept everybody from renewing,
// whichever of the two it kept from running, and neither excuses anything that
// needs no time.
func TestStalledServiceIsAsStalledNodes(t *testing.T) {
	auto := head(lockspec.Leased, "auto-renew=proven", "loss-signal=proven", "loss=50", "takeover=50", "margin=20")
	for _, test := range []struct{ name, script, want string }{
		{"lost", `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			170 fault f1 stall WHAT observed 40 170
			170 p1 lost t1 driver=105`, "pass"},
		{"both believed", `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			160 fault f1 stall WHAT observed 90 160
			170 p2 acquire
			175 p2 acquire ok t2 lease=100
			400 p1 lost t1 driver=400`, "inconclusive ?overlap/undeclared-hazard ?loss-signal/too-late"},
		{"both entitled", `
			0   p1 acquire
			5   p1 acquire ok t1 lease=100
			30  fault f1 stall WHAT observed 10 30
			40  p2 acquire
			45  p2 acquire ok t2 lease=100
			60  p1 release t1
			61  p1 release t1 lost`, "fail overlap/entitled"},
		{"revived", `
			0   p1 acquire renew=manual
			5   p1 acquire ok t1 lease=100
			60  fault f1 stall WHAT observed 10 60
			300 p1 renew t1
			301 p1 renew t1 ok lease=100`, "fail renewal/revived"},
	} {
		var rows []judged
		for _, what := range []string{"service", "controller", "n1"} {
			rows = append(rows, judged{test.name + ", " + what, auto, strings.ReplaceAll(test.script, "WHAT", what), test.want})
		}
		judgeAll(t, rows)
	}
}
