//go:build !linux

package driver

// awaitExit is false: only the wait that reaps is known to work here.
func awaitExit(int) bool { return false }

// groupStopped believes the signal, where the system shows no states.
func groupStopped(int) bool { return true }
