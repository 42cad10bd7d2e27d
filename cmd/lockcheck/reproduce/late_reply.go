package reproduce

import "github.com/lockcheck/lockcheck/checker"

var lateReply = Story{
	Name:   "late-reply",
	Title:  "The reply to an acquisition takes longer than the lease. A lock that believes what it is told hands out what is over.",
	Source: "redis.io, distributed locks: validity time; go-redsync/redsync#72",
	Shown:  Play{Target: "broken://no-engine", Case: "E11", Sign: fails(checker.Contract, "late-grant")},
	Cure:   "The lease is counted from the send of the request, and a grant that comes too late is given back.",
	Cured:  Play{Target: "embedded", Case: "E11", Sign: passes},
}
