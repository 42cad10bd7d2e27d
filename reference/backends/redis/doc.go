// Package redis takes locks of one Redis or Valkey, the way that Redis's own
// documentation describes for a single instance
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/),
// with a fencing token from the same script.
//
// A lock is a string that holds its owner and expires. What that cannot give,
// its description declares as hazards: a server that restarts, evicts or whose
// clock jumps forgets who holds a key. A holder learns that with its next
// renewal, and a resource that checks tokens is safe until then.
package redis
