package reproduce

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

var redlockNodeRestart = Story{
	Name:   "redlock-node-restart",
	Title:  "Two of three Redis servers have granted a lock, the third was away. One is restarted empty, the third comes back, and these two grant it again.",
	Source: "redis.io, distributed locks: delayed restarts",
	Shown:  Play{Target: "up:redlock", Case: "X46", Sign: twoHolders(lockspec.Restart), Lease: 2 * time.Second},
	Cure:   "A server that was restarted stays away for a lease, or has written its votes down.",
	Cured:  Play{Target: "up:redlock", Case: "X26", Sign: apart, Lease: 2 * time.Second},
}
