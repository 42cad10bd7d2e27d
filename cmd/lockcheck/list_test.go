package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestCasesPage: the page in the repository is the one that the tables give.
func TestCasesPage(t *testing.T) {
	c := (&cli{}).run(t, "list", "cases", "--markdown").want(t, result.ExitOK)
	page, err := os.ReadFile("../../docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	if c.out != string(page) {
		t.Error("docs/cases.md is not what the tables say: make docs")
	}
	for _, k := range append(contract.Cases(), chaos.Cases()...) {
		if strings.Count(c.out, "\n| "+k.ID+" |") != 1 {
			t.Errorf("case %s does not stand on the page once", k.ID)
		}
	}
}

// TestAPICasesAreListedOnly: they are nothing that a target could be asked for.
func TestAPICasesAreListedOnly(t *testing.T) {
	c := (&cli{}).run(t, "list", "cases").want(t, result.ExitOK)
	if !strings.Contains(c.out, "A08") {
		t.Error("A08 is not listed")
	}
	c.run(t, "run", "memory://", "--suite", "contract", "--case", "A08").want(t, result.ExitUsage)
	if !strings.Contains(c.err, `"A08"`) {
		t.Error(c.err)
	}
}

// TestBackendsPage: the page in the repository is of the cases and the backends
// that the tables have. Its figures are those of the runs that it was made from.
func TestBackendsPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	_, cases, found := strings.Cut(string(text), "\n## Cases\n")
	if !found {
		t.Fatal("it has no table of cases")
	}
	var want, got []string
	for _, k := range append(contract.Cases(), chaos.Cases()...) {
		if k.Level != contract.APILevel {
			want = append(want, k.ID)
		}
	}
	var columns string
	for line := range strings.Lines(cases) {
		switch cell := strings.Split(line, " | ")[0]; {
		case cell == "| case":
			columns = strings.TrimSpace(line)
		case strings.HasPrefix(cell, "| "):
			got = append(got, cell[2:])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("its cases are not those of the table: make backends\n%v\n%v", got, want)
	}
	names := "| case |"
	for _, b := range backendTable() {
		names += " " + b.name + " |"
	}
	if columns != names {
		t.Errorf("its backends are %s, those of the table %s: make backends", columns, names)
	}
}

// TestMeasured: a folder that is of no use for the page is named.
func TestMeasured(t *testing.T) {
	folder := func(target string) string {
		f, err := result.NewFolder(t.TempDir(), time.Now(), 1)
		must(t, err)
		must(t, f.WriteJSON("results.json", &result.Report{Schema: result.Schema, Target: target, Bounds: map[string]int64{"takeover_ns": 1_500_000},
			Cases: []result.Case{{ID: "A01", Status: result.Pass, Duration: int64(time.Second)}, {ID: "A02", Status: result.Unsupported}}}))
		return f.Path()
	}
	redis, again, other := folder("up:redis"), folder("redis://127.0.0.1:1"), folder("exec:cat")
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--markdown", redis, again}, again},
		{[]string{"--markdown", other}, other},
		{[]string{"--markdown", "nowhere"}, "nowhere"},
		{[]string{redis}, "--markdown"},
	} {
		c := (&cli{}).run(t, append([]string{"list", "backends"}, test.args...)...).want(t, result.ExitUsage)
		if !strings.Contains(c.err, test.says) {
			t.Errorf("%v: it does not say %s: %s", test.args, test.says, c.err)
		}
	}
	c := (&cli{}).run(t, "list", "backends", "--markdown", folder("up:valkey?renew=ifeq"), redis).want(t, result.ExitOK)
	for _, says := range []string{"| case | redis | valkey |", "| A01 | pass 1.00s | pass 1.00s |", "| A02 | unsupported | unsupported |", "| A03 | - | - |", "| takeover, at most | 1.5 ms | 1.5 ms |"} {
		if !strings.Contains(c.out, says) {
			t.Errorf("the page lacks %s:\n%s", says, c.out)
		}
	}
}
