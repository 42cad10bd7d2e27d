// Package checker decides from a recorded history whether a lock kept its
// promises, and shows why: each [Finding] names its events.
//
// It searches nothing: every rule compares intervals of tenures in O(n log n),
// and has its proof or its counter-example beside it. There are two doors.
//
//   - [Judge] knows everything: faults and their causes, what was believed, what
//     the resource saw, loss, renewal and takeover. It wants the events of one
//     case in memory.
//   - [Stream] checks the service's promise alone, against one [Model], while a
//     history of any length is read; it forgets what can overlap nobody any more.
//
// They share what decides: the earliest end of a tenure (alive), the placing of
// grants one after the other (chain).
//
// A comparison that needs a lease needs more than ε ([history.Header.Eps] plus
// a thousandth of the lease and the declared clock rate); whatever is closer is
// a doubt, and makes the verdict inconclusive instead of wrong.
package checker
