package reproduce

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

var postgresHalfOpen = Story{
	Name:   "postgres-half-open",
	Title:  "The connection of a holder dies and neither side is told. The holder goes on, and so does its lock at the server.",
	Source: "PostgreSQL, tcp_keepalives_idle: the default of the system is two hours",
	Shown:  Play{Target: "up:postgres", Case: "X17", Sign: twoHolders(lockspec.Partition), Lease: 2 * time.Second},
	Cure:   "Probes tell the holder, keepalives the server, each within its bound; the resource refuses the older token.",
	Cured:  Play{Target: "up:postgres", Case: "X17", Sign: fenced, Lease: 2 * time.Second},
}
