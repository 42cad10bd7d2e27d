// Package reference is a lock engine that keeps the whole contract, over
// backends that need know nothing of it.
//
// A [Backend] makes single attempts at a lock service. The [Engine] adds
// waiting, renewal, loss detection, release and the cleaning up after lost
// replies, the same for every backend. It exists to show that the contract can
// be kept, and to be the lock that lockcheck is tried on.
//
// What it guarantees, it guarantees among holders that run: see [Lease].
package reference
