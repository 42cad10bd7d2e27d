// Package postgres takes locks of one PostgreSQL: session-level advisory locks
// (https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS),
// each on a connection of its own, with a fencing token from the same statement.
//
// A lock is held for as long as its connection lives. There is no lease that
// could run out under a holder who is slow; a holder who is cut off holds it
// until the server has noticed, which by the server's own defaults takes more
// than two hours. So each connection asks for keepalives, and both ends act in
// order: the holder gives up three probes after the last one that was answered,
// the server frees the key after that, within the takeover bound.
//
// What that cannot give, the description declares as hazards: locks are not
// written to disk nor replicated, so a server that restarts and a standby that
// is promoted know of none. Locks of two databases of one server have nothing
// to do with each other.
package postgres
