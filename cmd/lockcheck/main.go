// Command lockcheck tells whether a distributed lock keeps its promises.
package main

import (
	"os"
)

func main() {
	serveIfAsked()
	exploreIfAsked()
	os.Exit(int(execute(os.Args[1:], defaultDeps())))
}
