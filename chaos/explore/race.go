//go:build race

package explore

// shuffled: the race detector makes the runtime draw which of several ready
// goroutines goes on. Schedules then do not repeat themselves.
const shuffled = true
