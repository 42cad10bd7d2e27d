// Package broken holds deliberately wrong locks. Each is a small named
// variation of a correct one, so that the suite can be seen to catch it, for
// the right reason. What varies is one file each: releases, renewals, losses.
package broken

import (
	"fmt"
	"slices"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// Lock is one line of the table of broken locks: a correct one with one thing
// wrong. It is asked anew for each node, whose processes share what it makes.
type Lock struct {
	Name  string
	Means string // what is wrong with it

	// Reports are the public reports of such a lock, as project and issue.
	Reports []string

	// Caught are the findings by which the suite tells what is wrong. Each
	// fails its case.
	Caught []Finding
	// Also are the other cases that may fail with it, and why they do.
	Also map[string]string

	Backend func(reference.Backend) reference.Backend // nil: the right one
	Client  func(lockspec.Client) lockspec.Client     // nil: the right one
}

// Finding is what a case must find, in the words of a report.
type Finding struct{ Case, Kind, Rule string }

// Wrap breaks a correct backend.
func (l Lock) Wrap(b reference.Backend) reference.Backend {
	if l.Backend == nil {
		return b
	}
	return l.Backend(b)
}

// Handle breaks what a correct client hands out.
func (l Lock) Handle(c lockspec.Client) lockspec.Client {
	if l.Client == nil {
		return c
	}
	return l.Client(c)
}

// Locks is the table of broken locks.
func Locks() []Lock { return slices.Concat(releases(), renewals(), losses()) }

// Find is the broken lock of the name.
func Find(name string) (Lock, error) {
	for _, l := range Locks() {
		if l.Name == name {
			return l, nil
		}
	}
	return Lock{}, fmt.Errorf("%w: no broken lock is named %q", lockspec.ErrConfig, name)
}
