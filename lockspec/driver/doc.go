// Package driver tests locks written in any language. A driver is a program,
// one for each node of a run; it reads requests and writes replies as JSON
// lines on its stdin and stdout, and its stderr is its log. This package has
// both ends of that protocol, version 1:
//
//   - the side of the lock: [Serve] answers requests with a [Lock], and [Main]
//     turns any Go program, or test binary, into a driver;
//   - the side of the harness: [Start] starts a driver as a [Node], one
//     operating-system process that can be paused, killed and started again,
//     and whose clients are ordinary [lockspec.Client]s;
//   - a [Guard], which ends every driver when the harness itself is killed.
//
// # What each side may rely on
//
// There is exactly one reply for each request, in any order. A driver writes
// the event lost before any reply that it computes after the loss was raised,
// so the harness may read a reply as "no loss until here". A driver whose stdin
// ends is gone at once and releases nothing; what it held lapses as it would
// in a crash.
//
// Stamps (now_ns, sent_ns, driver_ns) are raw CLOCK_MONOTONIC. The harness
// believes them only while every now_ns lies between the send of its request
// and the arrival of its reply; one that does not drops the clock for good.
package driver
