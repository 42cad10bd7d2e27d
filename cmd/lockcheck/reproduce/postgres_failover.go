package reproduce

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

var postgresFailover = Story{
	Name:   "postgres-failover",
	Title:  "A PostgreSQL dies and its standby is promoted. Advisory locks are not replicated: the standby grants at once.",
	Source: "PostgreSQL, advisory locks are held in the memory of one server",
	Shown:  Play{Target: "up:postgres", Case: "X42", Sign: twoHolders(lockspec.Failover), Lease: 2 * time.Second},
	Cure:   "Tokens that follow the time rise through the failover, and the resource refuses the older one.",
	Cured:  Play{Target: "up:postgres", Case: "X42", Sign: fenced, Lease: 2 * time.Second},
}
