package driver

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// The environment variables that tell a program what [Main] is to do.
const (
	EnvDriver = "LOCKCHECK_DRIVER" // set: be a driver
	EnvGuard  = "LOCKCHECK_GUARD"  // set: be the guard
)

// Exit codes of a driver.
const (
	exitUsage       = 64 // no common version
	exitUnavailable = 69 // the lock could not be opened, or the pipes broke
)

// Main makes a program a driver, or the guard, when its environment says so: it
// then serves and exits, and does not return. Else it returns at once. It is
// meant as the first line of main or of TestMain:
//
//	func TestMain(m *testing.M) {
//		driver.Main(open)
//		os.Exit(m.Run())
//	}
//
// While it serves, whatever the program prints to its stdout goes to stderr.
func Main(open Opener) {
	switch {
	case os.Getenv(EnvGuard) != "":
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		guard(os.Stdin)
		os.Exit(0)
	case os.Getenv(EnvDriver) != "":
		os.Exit(serveProcess(open))
	}
}

func serveProcess(open Opener) int {
	out, err := takeStdout()
	if err == nil {
		err = Serve(os.Stdin, out, open)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "driver: %v\n", err)
	if errors.Is(err, errVersion) {
		return exitUsage
	}
	return exitUnavailable
}
