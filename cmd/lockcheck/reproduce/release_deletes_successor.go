package reproduce

import "github.com/lockcheck/lockcheck/checker"

var releaseDeletesSuccessor = Story{
	Name:   "release-deletes-successor",
	Title:  "A holder is late, and its release deletes the key, which is another's by then.",
	Source: "laravel/framework#26213 and many others",
	Shown:  Play{Target: "broken://release-without-owner-check", Case: "B04", Sign: fails(checker.Ownership, "late-release-freed-successor")},
	Cure:   "The service compares the owner in the step that deletes.",
	Cured:  Play{Target: "embedded", Case: "B04", Sign: passes},
}
