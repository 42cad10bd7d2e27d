// Package checker decides from a recorded history whether a lock kept its
// promises, and shows why: each [Finding] names its events.
//
// It searches nothing. Every rule compares intervals of tenures (see [Tenure])
// in O(n log n). A comparison that needs a lease needs more than ε
// ([history.Header.Eps] plus a thousandth of the lease); whatever is closer is
// a doubt, and makes the verdict inconclusive instead of wrong.
package checker
