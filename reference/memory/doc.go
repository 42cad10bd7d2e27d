// Package memory is a small lock service: a [Store] inside the process, and
// the same store behind a TCP port ([Serve], [Dial]) with an admin port
// ([Admin]) that can break it in every way that tests need.
//
// Leases end on the store's clock, not on a client's. Fencing tokens rise over
// all keys, across release, expiry, eviction and restart: each is the larger of
// the last one plus 1 and the microseconds since 1970.
package memory
