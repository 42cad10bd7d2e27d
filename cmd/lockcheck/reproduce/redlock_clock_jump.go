package reproduce

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

var redlockClockJump = Story{
	Name:   "redlock-clock-jump",
	Title:  "Two of three Redis servers have granted a lock, the third was away. The clock of one jumps, the third comes back, and these two grant it again.",
	Source: "Martin Kleppmann, How to do distributed locking (2016), the good old clock jump",
	Shown:  Play{Target: "up:redlock", Case: "X63", Sign: twoHolders(lockspec.ServerClock), Lease: 2 * time.Second},
	Cure:   "One server that counts leases on a clock that cannot be set, with tokens, and a resource that compares them.",
	Cured:  Play{Target: "embedded", Case: "X02", Sign: fenced},
}
