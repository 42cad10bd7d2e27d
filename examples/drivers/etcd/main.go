// Command etcd is a lockcheck driver for the Mutex and the Session of
// go.etcd.io/etcd/client/v3/concurrency.
//
//	GOWORK=off go build -o driver .
//	lockcheck run exec:./driver --endpoint HOST:PORT
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
