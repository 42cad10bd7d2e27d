package reproduce

var delayedWrite = Story{
	Name:   "delayed-write",
	Title:  "A holder checks its lock and writes. The write is held up on its way and arrives when another holds the key.",
	Source: "Martin Kleppmann, How to do distributed locking (2016), network delays",
	Shown:  Play{Target: "embedded", Case: "X62", Sign: staleWrite},
	Cure:   "The resource compares tokens and refuses the older one. No check by the client helps.",
	Cured:  Play{Target: "embedded", Case: "X62", Sign: fenced},
}
