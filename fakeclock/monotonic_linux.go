package fakeclock

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	clockRealtime  = 0
	clockMonotonic = 1
)

// Monotonic reads raw CLOCK_MONOTONIC in nanoseconds: the clock that every
// process of one Linux machine shares, so that stamps of two processes can be
// compared. ok is false where there is no such clock. In a synctest bubble it
// is still the real one; see [Stamp].
func Monotonic() (ns int64, ok bool) { return read(clockMonotonic) }

// inBubble tells synctest's clock, which starts at the year 2000, from the
// machine's.
func inBubble() bool {
	ns, ok := read(clockRealtime)
	return ok && time.Since(time.Unix(0, ns)).Abs() > time.Hour
}

func read(clock uintptr) (ns int64, ok bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}
