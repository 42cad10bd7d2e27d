package main

import (
	"os"
	"strings"
	"testing"

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
