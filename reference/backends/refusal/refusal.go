// Package refusal is how backends tell that a service did nothing.
package refusal

import "github.com/lockcheck/lockcheck/reference"

// Error is an answer that nothing was done, in the words of the contract. It
// matches Kind, what the service said, and reference.ErrNotSent: there is
// nothing to clean up, no more than after a request that never left.
type Error struct {
	Kind    error  // one of lockspec's
	Setting string // that is wrong, as the backend's Form has it; empty: none is
	Means   string // for people
	Said    error  // the service's own words, which may quote keys and addresses; nil: it was not asked
}

// New is a refusal; see the fields of Error.
func New(kind error, setting, means string, said error) *Error {
	return &Error{kind, setting, means, said}
}

func (e *Error) Error() string { return e.Kind.Error() + ": " + e.Means }

// Unwrap gives the kind and what the service said.
func (e *Error) Unwrap() []error {
	all := []error{e.Kind, reference.ErrNotSent}
	if e.Said != nil {
		all = append(all, e.Said)
	}
	return all
}
