package reproduce

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

var redisClockJump = Story{
	Name:   "redis-clock-jump",
	Title:  "The clock of a Redis jumps ahead, and leases end early. (Emulated: every lease of the run is shortened by the jump.)",
	Source: "Martin Kleppmann, How to do distributed locking (2016)",
	Shown:  Play{Target: "up:redis", Case: "X48", Sign: twoHolders(lockspec.ServerClock), Lease: 2 * time.Second},
	Cure:   "The resource compares tokens and refuses the older one.",
	Cured:  Play{Target: "up:redis", Case: "X48", Sign: fenced, Lease: 2 * time.Second},
}
