package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// casesPage is docs/cases.md: every case of both suites, from their tables.
func casesPage(w io.Writer) {
	all := contract.Cases()
	fmt.Fprintf(w, `# The cases

Made by %[1]slockcheck list cases --markdown%[1]s from the tables in the code; suite %[2]s.

A case has an ID, which is never used again, and a promise in words. Its **level** says what it needs:
%[1]sclient%[1]s any client, %[1]sharness%[1]s a power of the harness over the service, %[1]sapi%[1]s is a promise of the reference
engine's Go API, tried by its own tests and never counted for a target. What it **needs** of the lock (features,
a bound in *italics*, nodes that are processes) it needs to be claimed; without that, it is %[1]sunsupported%[1]s.

| level | cases |
|---|---|
`, "`", contract.Suite)
	for _, level := range []contract.Level{contract.ClientLevel, contract.HarnessLevel, contract.APILevel} {
		n := 0
		for i := range all {
			if all[i].Level == level {
				n++
			}
		}
		fmt.Fprintf(w, "| %s | %d |\n", level, n)
	}
	group := ""
	for i := range all {
		if c := &all[i]; c.ID[:1] != group {
			group = c.ID[:1]
			tableHead(w, group+": "+c.Group)
		}
		tableRow(w, &all[i])
	}
	tableHead(w, "Chaos")
	for _, c := range chaos.Cases() {
		tableRow(w, &c)
	}
}

func tableHead(w io.Writer, title string) {
	fmt.Fprintf(w, "\n## %s\n\n| ID | promise | why | level | needs |\n|---|---|---|---|---|\n", title)
}

func tableRow(w io.Writer, c *contract.Case) {
	fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", c.ID, c.Name, c.Why, c.Level, strings.Join(needs(c), ", "))
}

// needs is what a case needs to be claimed.
func needs(c *contract.Case) []string {
	var all []string
	for _, f := range c.Needs {
		all = append(all, string(f))
	}
	if c.Bound != "" {
		all = append(all, "*"+c.Bound+"*")
	}
	if c.Nodes > 0 {
		all = append(all, "nodes")
	}
	return all
}
