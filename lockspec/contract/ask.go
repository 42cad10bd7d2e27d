package contract

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// LeaseOf is what to ask for where a lease of that length is wanted: no more
// and no less than the lock accepts, and none of a session, which would have to
// refuse it as a misconfiguration.
func (e *Env) LeaseOf(length time.Duration) time.Duration {
	if e.Description.Class == lockspec.Session {
		return 0
	}
	return term(e.Description, length)
}

// Term is how long somebody who goes silent may keep what a case asks for: the
// lease of its requests. That is the case's measure of time unless the lock
// grants none so short; what is not about the end of a lease need not take as
// long as one.
func (e *Env) Term() time.Duration { return term(e.Description, e.Lease) }

// term is a lease of that length, within what the lock accepts.
func term(d lockspec.Description, length time.Duration) time.Duration {
	length = max(length, d.Bounds.LeaseMin)
	if limit := d.Bounds.LeaseMax; limit > 0 {
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
