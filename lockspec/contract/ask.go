package contract

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// LeaseOf is what to ask for where a lease of that length is wanted: no more
// than the lock accepts, and none of a session, which would have to refuse it as
// a misconfiguration.
func (e *Env) LeaseOf(length time.Duration) time.Duration {
	if e.Description.Class == lockspec.Session {
		return 0
	}
	if limit := e.Description.Bounds.LeaseMax; limit > 0 {
		length = min(length, limit)
	}
	return length
}

// ask is a request for a key of the case, and for its lease: for the whole key,
// so that a lock with permits is a mutex in every case that is not about them.
func (e *Env) ask(key string, m lockspec.RenewMode) lockspec.Request {
	return lockspec.Request{Key: e.Key(key), Lease: e.LeaseOf(e.Lease), Renew: m, Count: e.permits()}
}

// askFor is a request for a key that will be held for so long. A lock that
// renews by itself needs no longer lease for that; of any other it is asked with
// as much again to spare, so that a holder does not lose to the clock what the
// case is not about.
func (e *Env) askFor(key string, hold time.Duration) lockspec.Request {
	r := e.ask(key, e.Renewal())
	if r.Renew != lockspec.RenewAuto {
		r.Lease = e.LeaseOf(max(e.Lease, 2*hold))
	}
	return r
}
