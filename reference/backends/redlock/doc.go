// Package redlock takes a lock on most of several independent Redis or Valkey
// servers (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
//
// It survives the death of a minority. It gives no fencing tokens: the counters
// of independent servers have no common order. So its hazards, those of every
// lease and a server that restarts and has forgotten its vote, cannot be made
// harmless by a resource that checks tokens; for that take one server and
// package redis. A server that crashed and persists nothing must stay away for
// the longest lease before it votes again.
package redlock
