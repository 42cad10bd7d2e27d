// Command redsync is a lockcheck driver for github.com/go-redsync/redsync, on
// one Redis or on a majority of several.
//
//	GOWORK=off go build -o driver .
//	lockcheck run exec:./driver --lease 2s --endpoint HOST:PORT
//
// It adds nothing to the library: no deadline, no check of the owner, no
// renewal. What the suites find is what an application would meet.
package main

import (
	"fmt"
	"os"

	"github.com/lockcheck/lockcheck/lockspec/driver"
)

func main() {
	driver.Main(open) // which does not return where lockcheck started us
	fmt.Fprintln(os.Stderr, "a lockcheck driver; start it with: lockcheck run exec:"+os.Args[0]+" --endpoint HOST:PORT")
	os.Exit(64)
}
