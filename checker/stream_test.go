package checker

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

func streamed(t testing.TB, h *history.Header, model string, events []history.Event, workers int) *Summary {
	t.Helper()
	m, err := ParseModel(model)
	if err != nil {
		t.Fatal(err)
	}
	s := NewStream(h, m, &StreamOptions{Workers: workers})
	for i := range events {
		s.Add(&events[i])
	}
	return s.Close()
}

func TestStream(t *testing.T) {
	plain := head(lockspec.Leased)
	const handover = `
		0  p1 acquire
		1  p1 acquire ok t1 lease=100
		10 p1 release t1
		11 p1 release t1 REPLY
		12 p2 acquire
		13 p2 acquire ok t2 lease=100`
	rows := []struct {
		name, model, text, want string
	}{
		{"released", "mutex", replace(handover, "REPLY", "ok"), "pass"},
		{"a failed release of a mutex had no effect", "mutex", replace(handover, "REPLY", "not-held"), "fail overlap/certain"},
		{"of an owner it ended the hold", "owner", replace(handover, "REPLY", "not-held"), "pass"},
		{"an unknown release may have landed", "mutex", replace(handover, "REPLY", "unavailable"), "pass"},
		{"a release that fails after the next grant", "mutex", `
			0  p1 acquire
			1  p1 acquire ok t1
			10 p1 release t1
			12 p2 acquire
			13 p2 acquire ok t2
			14 p1 release t1 not-held`, "fail overlap/certain"},
		{"a release that works after the next grant", "mutex", `
			0  p1 acquire
			1  p1 acquire ok t1
			10 p1 release t1
			12 p2 acquire
			13 p2 acquire ok t2
			14 p1 release t1 ok`, "pass"},
		{"a section is not passed unseen", "owner", `
			0  p1 section
			5  p1 entered t1
			10 p2 acquire
			11 p2 acquire ok t2
			20 p1 section t1 ok`, "inconclusive overlap/sections"},
		{"a lease that was over before its reply came holds no permit", "permits:2", `
			5  p3 acquire
			7  p1 acquire
			8  p1 acquire ok t8 lease=3
			9  p3 acquire ok t9 lease=3`, "pass"},
		{"three leases that fit two by two, and not together", "rw", `
			2  p1 acquire
			3  p2 acquire
			4  p1 acquire ok t4 lease=30
			33 p2 acquire ok t5 lease=30
			34 p3 acquire
			35 p3 acquire ok t6 lease=30`, "inconclusive overlap/unproven"},
		{"a lease that was renewed after others were put behind it", "permits:1", `
			0  p1 acquire
			2  p1 acquire ok t1 lease=4
			3  p2 acquire
			5  p1 renew t1 lease=4
			6  p2 acquire ok t2 lease=4
			9  p1 renew t1 ok lease=4`, "inconclusive overlap/unproven"},
		{"a release that is never answered", "mutex", `
			0  p1 acquire
			1  p1 acquire ok t1
			10 p1 release t1
			12 p2 acquire
			13 p2 acquire ok t2`, "pass"},
		{"an unknown acquisition is dropped", "mutex", `
			0  p1 acquire
			1  p1 acquire unavailable
			2  p2 acquire
			3  p2 acquire ok t2`, "pass"},
		{"one that is answered late is not", "owner", `
			0  p1 acquire
			1  p1 acquire unavailable
			2  p2 acquire
			3  p2 acquire ok t2
			4  p1 late ok t1 of=0
			5  p1 release t1`, "fail overlap/certain"},
		{"a lease ends by itself", "lease", cutLine(replace(handover, "12 p2", "120 p2", "13 p2", "121 p2"), "release"), "pass"},
		{"not for an owner", "owner", cutLine(replace(handover, "12 p2", "120 p2", "13 p2", "121 p2"), "release"), "fail overlap/certain"},
		{"a refused check, asked for before the next grant, undoes it", "lease", `
			0  p1 acquire
			1  p1 acquire ok t1 lease=100
			10 p1 held t1
			12 p2 acquire
			13 p2 acquire ok t2 lease=100
			14 p1 held t1 lost`, "pass"},
		{"one that was answered ok does not", "lease", `
			0  p1 acquire
			1  p1 acquire ok t1 lease=100
			10 p1 held t1
			12 p2 acquire
			13 p2 acquire ok t2 lease=100
			14 p1 held t1 ok`, "fail overlap/chain"},
		{"a renewal", "lease", `
			0  p1 acquire
			1  p1 acquire ok t1 lease=100
			50 p1 renew t1 ask=100
			51 p1 renew t1 ok lease=100
			110 p2 acquire
			111 p2 acquire ok t2 lease=100`, "fail overlap/chain"},
		{"a renewal of unknown outcome", "lease", `
			0  p1 acquire
			1  p1 acquire ok t1 lease=100
			50 p1 renew t1 ask=100
			51 p1 renew t1 unavailable
			110 p2 acquire
			111 p2 acquire ok t2 lease=100`, "pass"},
		{"three of two permits", "permits:2", `
			0  p1 acquire
			1  p1 acquire ok t1
			2  p2 acquire
			3  p2 acquire ok t2
			4  p3 acquire
			5  p3 acquire ok t3`, "fail overlap/certain"},
		{"a reader and a writer", "rw", `
			0  p1 acquire mode=read
			1  p1 acquire ok t1 mode=read
			2  p2 acquire mode=read
			3  p2 acquire ok t2 mode=read
			4  p3 acquire
			5  p3 acquire ok t3`, "fail overlap/certain"},
		{"an owner with itself", "reentrant", `
			0  p1 acquire
			1  p1 acquire ok t1
			2  p1 acquire
			3  p1 acquire ok t2
			4  p1 release t1
			5  p1 release t1 ok
			6  p2 acquire
			7  p2 acquire ok t3`, "fail overlap/certain"},
		{"a token that falls", "fenced", `
			0  p1 acquire
			1  p1 acquire ok t1 lease=1 token=7
			12 p2 acquire
			13 p2 acquire ok t2 lease=1 token=6`, "fail fencing/token-order"},
		{"a token that repeats", "fenced", `
			0  p1 acquire
			0  p2 acquire
			1  p1 acquire ok t1 lease=1 token=7
			13 p2 acquire ok t2 lease=1 token=7`, "fail fencing/token-repeated"},
		{"a slow reply", "fenced", `
			0  p1 acquire
			20 p2 acquire
			23 p2 acquire ok t2 lease=100 token=2
			25 p1 acquire ok t1 lease=15 token=1`, "pass"},
		{"a release of what another holds", "lease", `
			0   p1 acquire
			1   p1 acquire ok t1 lease=100
			120 p2 acquire
			121 p2 acquire ok t2 lease=100
			130 p1 release t1
			131 p1 release t1 ok`, "fail ownership/ok-after-successor"},
		{"a copy of its acquisition may have come after the release of its successor", "lease", copied, "inconclusive ownership/ok-after-successor"},
		{"no copy of anything was on its way", "lease", cutLine(copied, "duplicate"), "fail ownership/ok-after-successor"},
		{"the service was struck", "lease", `
			0   p1 acquire
			1   p1 acquire ok t1 lease=100
			2   fault f1 restart service start
			3   fault f1 restart service end
			12  p2 acquire
			13  p2 acquire ok t2 lease=100`, "pass"},
		{"the service was struck before the reply came", "lease", `
			0   p1 acquire
			1   fault f1 restart service start
			2   fault f1 restart service end
			3   p1 acquire ok t1 lease=100
			12  p2 acquire
			13  p2 acquire ok t2 lease=100`, "pass"},
		{"the holder was killed", "owner", `
			0   p1 acquire
			1   p1 acquire ok t1
			2   fault f1 kill n1 start
			3   fault f1 kill n1 end
			12  p2 acquire
			13  p2 acquire ok t2`, "pass"},
		{"another was", "owner", `
			0   p1 acquire
			1   p1 acquire ok t1
			2   fault f1 kill n3 start
			3   fault f1 kill n3 end
			12  p2 acquire
			13  p2 acquire ok t2`, "fail overlap/certain"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			for _, workers := range []int{1, 3} {
				sum := streamed(t, plain, row.model, script(t, row.text), workers)
				got := []string{string(sum.Outcome)}
				for _, f := range sum.Findings {
					got = append(got, string(f.Kind)+"/"+f.Rule)
				}
				if got := strings.Join(got, " "); got != row.want {
					t.Errorf("%d workers: got %q, want %q", workers, got, row.want)
				}
			}
		})
	}
}

// TestScattered: a lease that many servers grant may be over sooner after its
// grant than one that a single server grants.
func TestScattered(t *testing.T) {
	for class, want := range map[lockspec.Class]Outcome{lockspec.ReplicatedLease: Pass, lockspec.Leased: Failed} {
		if sum := streamed(t, head(class), "lease", script(t, trickled), 1); sum.Outcome != want {
			t.Errorf("%s: got %s, want %s: %v", class, sum.Outcome, want, sum.Findings)
		}
	}
}

// TestLossUndoes: where loss is signalled, a violation waits until the former
// holder can no longer turn out to have given up before it.
func TestLossUndoes(t *testing.T) {
	signals := head(lockspec.Leased, "loss-signal=proven")
	const both = `
		0  p1 acquire
		1  p1 acquire ok t1 lease=100
		10 p2 acquire
		13 p2 acquire ok t2 lease=100
	`
	for name, row := range map[string]struct {
		text string
		want Outcome
	}{
		"raised before":             {both + "20 p1 lost t1 driver=5", Pass},
		"raised after":              {both + "20 p1 lost t1 driver=15\n21 p2 release t2", Failed},
		"raised, nobody knows when": {both + "20 p1 lost t1", Pass},
		"released after":            {both + "20 p1 release t1\n21 p2 release t2", Failed},
		"never":                     {both, Failed},
		"the second's":              {both + "20 p2 lost t2", Pass},
	} {
		t.Run(name, func(t *testing.T) {
			if sum := streamed(t, signals, "lease", script(t, row.text), 1); sum.Outcome != row.want {
				t.Errorf("got %s, want %s: %v", sum.Outcome, row.want, sum.Findings)
			}
		})
	}
}

// TestFirstViolation: a violation is told before the history ends.
func TestFirstViolation(t *testing.T) {
	var told []Finding
	s := NewStream(head(lockspec.Leased), Model{Kind: ModelLease}, &StreamOptions{Workers: 1, Found: func(f Finding) { told = append(told, f) }})
	events := script(t, "0 p1 acquire\n1 p1 acquire ok t1 lease=100\n2 p2 acquire\n3 p2 acquire ok t2 lease=100")
	for i := range events {
		s.Add(&events[i])
	}
	if len(told) != 1 || told[0].Kind != Overlap {
		t.Fatalf("told %v", told)
	}
	if v := s.Close(); v.Violations != 1 || v.Tenures != 2 || v.Events != 4 {
		t.Errorf("summary %+v", v)
	}
}

func TestModels(t *testing.T) {
	for _, word := range []string{"auto", "mutex", "owner", "fenced", "lease", "permits:3", "rw", "reentrant"} {
		if m, err := ParseModel(word); err != nil || m.String() != word {
			t.Errorf("%s: %v, %v", word, m, err)
		}
	}
	for _, word := range []string{"", "lock", "permits", "permits:0", "permits:x", "mutex:2"} {
		if _, err := ParseModel(word); err == nil {
			t.Errorf("%q was taken", word)
		}
	}
	for want, h := range map[string]*history.Header{
		"permits:2": head(lockspec.Leased, "capacity=2"), "rw": head(lockspec.Leased, "shared=proven"),
		"reentrant": head(lockspec.Memory, "reentrant=proven"), "fenced": head(lockspec.Leased, "fencing=proven"),
		"owner": head(lockspec.Session), "lease": head(lockspec.Leased, "fencing=false"),
	} {
		if got := (Model{}).For(h).String(); got != want {
			t.Errorf("auto is %s, want %s", got, want)
		}
	}
}

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
		{"what follows a doubt rests on certain holds alone", "lease", `
			0 p3 acquire
			5 p4 acquire
			6 p4 acquire ok t6 lease=5
			7 p4 release t6
			8 p5 acquire
			9 p3 acquire ok t9 lease=5
			10 p4 release t6 ok
			11 p5 acquire ok t11 lease=5
			12 p4 acquire
			14 p4 acquire ok t14 lease=5`, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if sum := streamed(t, exact, row.model, script(t, row.text), 1); !slices.ContainsFunc(sum.Findings, func(f Finding) bool { return f.Certainty == Certain && f.Kind != Ownership }) != row.legal {
				t.Errorf("legal is %v: %v", sum.linearizable(), sum.Findings)
			}
		})
	}
}
