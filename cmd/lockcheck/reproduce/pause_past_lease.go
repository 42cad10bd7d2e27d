package reproduce

import "github.com/lockcheck/lockcheck/lockspec"

var pausePastLease = Story{
	Name:   "pause-past-lease",
	Title:  "A holder stands still for longer than its lease, as in a garbage collection. It wakes up and writes as if it still held the key.",
	Source: "Martin Kleppmann, How to do distributed locking (2016); HBase, HBASE-2234",
	Shown:  Play{Target: "embedded", Case: "X02", Sign: twoHolders(lockspec.Pause)},
	Cure:   "The resource compares tokens and refuses the older one.",
	Cured:  Play{Target: "embedded", Case: "X02", Sign: fenced},
}
