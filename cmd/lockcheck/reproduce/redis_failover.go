package reproduce

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

var redisFailover = Story{
	Name:   "redis-failover",
	Title:  "A Redis dies before it has told its replica of a grant. The replica takes over and grants the key again.",
	Source: "redis.io, distributed locks: why failover-based implementations are not enough",
	Shown:  Play{Target: "up:redis?class=replicated-lease", Case: "X37", Sign: twoHolders(lockspec.Failover), Lease: 2 * time.Second},
	Cure:   "Tokens that follow the time rise through the failover, and the resource refuses the older one.",
	Cured:  Play{Target: "up:redis?class=replicated-lease", Case: "X37", Sign: fenced, Lease: 2 * time.Second},
}
