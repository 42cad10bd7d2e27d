package reproduce

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

var redisRestart = Story{
	Name:   "redis-restart-no-persistence",
	Title:  "A Redis that keeps nothing on disk is restarted. It knows of no lock and grants the key again.",
	Source: "redis.io, distributed locks: performance, crash recovery and fsync",
	Shown:  Play{Target: "up:redis", Case: "X25", Sign: twoHolders(lockspec.Restart), Lease: 2 * time.Second},
	Cure:   "The Redis has written down every command when it is killed.",
	Cured:  Play{Target: "up:redis", Case: "X26", Sign: apart, Lease: 2 * time.Second},
}
