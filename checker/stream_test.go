
// TestCounterExamples: histories on which an earlier version of the checks
// disagreed with all linearizations.
func TestCounterExamples(t *testing.T) {
	exact := &history.Header{Class: lockspec.Leased}
	rows := []struct {
		name, model, text string
		legal             bool
	}{
		{"a renewal that was open at the next grant was answered ok", "lease", `
			0 p2 acquire
			2 p2 acquire ok t2 lease=4
			5 p2 renew t2 ask=4
			6 p4 acquire
			7 p4 acquire ok t7 lease=4
			8 p2 renew t2 ok lease=4`, false},
		{"a refused renewal does not undo what follows from the others", "fenced", `
			0 p1 acquire
			1 p3 acquire
			2 p2 acquire
			3 p3 acquire ok t3 lease=4 token=1
			4 p3 renew t3 ask=4
			5 p1 acquire ok t5 lease=4 token=3
			6 p1 release t5
			7 p2 acquire ok t7 lease=4 token=2
			8 p3 renew t3 not-held`, false},
		{"nor make guilty what rested on it", "fenced", `
			0 p3 acquire
			2 p1 acquire
			3 p1 acquire ok t3 lease=5 token=1
			4 p1 renew t3 ask=5
			6 p3 acquire ok t6 lease=5 token=2
			9 p4 acquire
			10 p4 acquire ok t10 lease=5 token=3
			11 p3 release t6
			12 p1 renew t3 not-held`, true},
		{"two unknown renewals, one after the other", "lease", `
			0 p2 acquire
			4 p2 acquire ok t4 lease=3
			6 p2 renew t4 ask=3
			8 p2 renew t4 unavailable
			9 p2 renew t4 ask=3
			10 p2 renew t4 unavailable
			11 p2 renew t4 ask=3
			12 p2 renew t4 ok lease=3`, true},
		{"an unknown renewal that must bridge the later step", "lease", `
			0 p2 acquire
			1 p2 acquire ok t1 lease=6
			4 p2 renew t1 ask=6
			8 p2 renew t1 ok lease=6
			9 p2 renew t1 ask=6
			11 p2 renew t1 unavailable
			14 p2 renew t1 ask=6
			17 p2 renew t1 ok lease=6`, true},
		{"a release that fails beside another that is open", "mutex", `
			2 p4 acquire
			3 p2 acquire
			6 p4 acquire ok t6
			7 p5 acquire
			8 p4 release t6
			9 p5 acquire ok t9
			10 p5 release t9
			11 p2 acquire ok t11
			13 p4 release t6 unavailable
			14 p5 release t9 not-held`, false},
		{"a renewal shows that a released tenure came too soon", "lease", `
			0 p1 acquire
			2 p2 acquire
			3 p1 acquire ok t3 lease=6
			4 p1 renew t3 ask=6
			6 p2 acquire ok t6 lease=6
			7 p4 acquire
			8 p2 release t6
			9 p4 acquire ok t9 lease=6
			10 p2 release t6 unavailable
			11 p4 release t9
			13 p4 release t9 ok
			16 p1 renew t3 ok lease=6`, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if sum := streamed(t, exact, row.model, script(t, row.text), 1); sum.linearizable() != row.legal {
				t.Errorf("legal is %v: %v", sum.linearizable(), sum.Findings)
			}
		})
	}
}
