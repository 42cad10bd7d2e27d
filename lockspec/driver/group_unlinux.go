//go:build !linux

package driver

// awaitExit is left to the reaping wait, where the system cannot wait without.
func awaitExit(int) {}

// groupStopped believes the signal, where the system shows no states.
func groupStopped(int) bool { return true }
