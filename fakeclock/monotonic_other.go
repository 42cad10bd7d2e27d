//go:build !linux

package fakeclock

// Monotonic is not available on this operating system: ok is false.
func Monotonic() (ns int64, ok bool) { return 0, false }

func inBubble() bool { return false }
