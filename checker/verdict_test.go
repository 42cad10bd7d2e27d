package checker

import (
	"testing"

	"github.com/lockcheck/lockcheck/lockspec"
)

func TestLevels(t *testing.T) {
	rows := []struct {
		name, text string
		want       [3]Outcome
	}{
		{"nothing wrong", "0 p1 acquire\n1 p1 acquire ok t1 lease=100", [3]Outcome{Pass, Pass, Pass}},
		{"the service", "0 p1 acquire\n1 p1 acquire ok t1\n2 p2 acquire\n3 p2 acquire ok t2", [3]Outcome{Failed, Pass, Pass}},
		{"the lease only", "0 p1 acquire\n5 p1 acquire ok t1 lease=100\n120 p2 acquire\n125 p2 acquire ok t2 lease=100", [3]Outcome{Pass, Failed, Pass}},
		{"the resource only", overwritten, [3]Outcome{Pass, Pass, Failed}},
		{"a hazard", overtaken, [3]Outcome{Pass, Hazardous, Pass}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			v := Judge(head(lockspec.Leased, "auto-renew=proven", "pause"), script(t, row.text))
			for n, l := range v.Levels() {
				if l.Outcome != row.want[n] || l.Means == "" {
					t.Errorf("%s: %s (%s), want %s; %s", l.Level, l.Outcome, l.Means, row.want[n], said(v))
				}
			}
		})
	}
}

func TestClockStep(t *testing.T) {
	judgeAll(t, []judged{
		{"nothing that rests on a lease stands", head(lockspec.Leased), `
			0  p1 acquire
			1  p1 acquire ok t1 lease=100
			2  p2 acquire
			3  p2 acquire ok t2 lease=100
			50 fault f1 clock-step clock:service observed 1 1`, "inconclusive ?overlap/entitled"},
	})
}
