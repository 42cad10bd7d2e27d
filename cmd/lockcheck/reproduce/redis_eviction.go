package reproduce

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

var redisEviction = Story{
	Name:   "redis-eviction",
	Title:  "A Redis runs out of memory and evicts what may expire: locks.",
	Source: "redis.io, key eviction: volatile-lru",
	Shown:  Play{Target: "up:redis", Case: "X30", Sign: twoHolders(lockspec.Evict), Lease: 2 * time.Second},
	Cure:   "maxmemory-policy noeviction: it refuses new locks and keeps the old ones.",
	Cured:  Play{Target: "up:redis", Case: "X31", Sign: apart, Lease: 2 * time.Second},
}
