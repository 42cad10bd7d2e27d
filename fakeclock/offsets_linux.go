package fakeclock

const clockBoottime = 7

// Offsets is how far CLOCK_BOOTTIME and CLOCK_REALTIME are ahead of
// CLOCK_MONOTONIC, in ns. The first grows when the machine was suspended, the
// second when its wall clock was set. ok is false where they cannot be read
// close enough together to mean anything.
func Offsets() (boot, real int64, ok bool) {
	const tight = 200_000 // ns between the readings around them
	for range 3 {
		before, ok1 := read(clockMonotonic)
		b, ok2 := read(clockBoottime)
		r, ok3 := read(clockRealtime)
		after, ok4 := read(clockMonotonic)
		if !ok1 || !ok2 || !ok3 || !ok4 {
			return 0, 0, false
		}
		if after-before < tight {
			return b - before, r - before, true
		}
	}
	return 0, 0, false
}
