package chaos

import (
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// scenarioRow is one line of the table of scenarios.
type scenarioRow struct {
	id, name, why string
	plan          planner
}

// scenarios is the table of scenarios, in the order of IDs.
var scenarios = []scenarioRow{
	{"X01", "holder killed: the key is obtainable within the bound",
		"a crashed worker must not keep everybody out, and must not be succeeded too early", planKill},
	{"X02", "holder stopped past its lease, then continued",
		"a garbage collection, a swapped-out process, a suspended machine: it wakes up and writes as if it still held the key", planPause},
}

// Cases is the chaos suite, in the order of IDs.
func Cases() []contract.Case {
	var cases []contract.Case
	for i := range scenarios {
		row := &scenarios[i]
		cases = append(cases, contract.Case{ID: row.id, Suite: contract.ChaosSuite, Group: "chaos", Name: row.name, Why: row.why,
			Level: contract.ClientLevel, Since: "1", Bound: "takeover", Serial: true, Run: row.run})
	}
	return cases
}
