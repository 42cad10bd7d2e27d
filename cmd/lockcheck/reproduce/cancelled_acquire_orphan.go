package reproduce

import "github.com/lockcheck/lockcheck/checker"

var cancelledAcquireOrphan = Story{
	Name:   "cancelled-acquire-orphan",
	Title:  "An acquisition is cancelled while it is under way, and is granted all the same. Nobody releases it.",
	Source: "redisson/redisson#2714",
	Shown:  Play{Target: "broken://cancel-leaves-the-lock", Case: "C03", Sign: fails(checker.Residue, "orphan")},
	Cure:   "What a cancelled attempt wins is given back behind its back.",
	Cured:  Play{Target: "embedded", Case: "C03", Sign: passes},
}
