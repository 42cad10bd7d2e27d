//go:build unix && !linux

package driver

import "syscall"

// groupAlive says whether the group has a process, dead ones that nobody has
// reaped included.
func groupAlive(pgid int) bool { return pgid > 1 && syscall.Kill(-pgid, 0) == nil }
