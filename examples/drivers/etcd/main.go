// Command etcd is a lockcheck driver for the Mutex and the Session of
// go.etcd.io/etcd/client/v3/concurrency.
//
//	GOWORK=off go build -o driver .
//	lockcheck run exec:./driver --lease 2s --endpoint HOST:PORT
//
// It adds nothing to the library: no deadline, no check of the owner, no
// renewal. What the suites find is what an application would meet.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/lockcheck/lockcheck/lockspec/driver"
)

func main() {
	shared := flag.Bool("shared", false, "one Session for each process, not for each tenure")
	flag.Parse()
	driver.Main(opener(*shared)) // which does not return where lockcheck started us
	fmt.Fprintln(os.Stderr, "a lockcheck driver; start it with: lockcheck run exec:"+os.Args[0]+" --endpoint HOST:PORT")
	os.Exit(64)
}
