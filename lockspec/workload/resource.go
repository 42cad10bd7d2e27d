package workload

import (
	"sync"

	"github.com/lockcheck/lockcheck/checker/history"
)

// Gate decides whether the fenced register takes a token, given the highest
// one it has seen. The right one refuses what is lower; a test of the suite
// hands in a wrong one.
type Gate func(token, highest int64) bool

func refuseLower(token, highest int64) bool { return token >= highest }

// Resource is what the lock protects: per key an open register, which takes
// every write, and a fenced one, which refuses tokens below the highest it has
// seen. Both live in the controller, so that their order is exact: an access
// and its line in the history are one step.
//
// A register's value is its version. A write is based on the version that was
// read when the write was invoked; that is recorded and never enforced, so
// that an update that gets lost is seen, not prevented. A tenure without a
// token leaves the fenced register alone.
type Resource struct {
	scene *Scene
	gate  Gate
	mu    sync.Mutex
	cells map[string]*registers
}

type registers struct{ open, fenced, highest int64 }

// versions are what a write is based on.
type versions struct{ open, fenced int64 }

func newResource(s *Scene, g Gate) *Resource {
	if g == nil {
		g = refuseLower
	}
	return &Resource{scene: s, gate: g, cells: map[string]*registers{}}
}

func (r *Resource) cell(key string) *registers {
	if r.cells[key] == nil {
		r.cells[key] = &registers{}
	}
	return r.cells[key]
}

// read reads both registers. The fenced read carries the token and raises the
// highest seen (the seal) in the same step that returns the version: a stale
// write that comes after it is refused even where the new holder has not
// written yet.
func (r *Resource) read(t *Tenure) versions {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cell(t.Key)
	r.record(t, history.OpenRegister, history.RegisterRead, c.open, 0, history.NoVerdict)
	if t.HasToken {
		r.record(t, history.FencedRegister, history.RegisterRead, c.fenced, 0, r.pass(c, t.Token))
	}
	return versions{c.open, c.fenced}
}

// write writes both registers on top of what was read.
func (r *Resource) write(t *Tenure, based versions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.cell(t.Key)
	c.open++
	r.record(t, history.OpenRegister, history.RegisterWrite, c.open, based.open, history.NoVerdict)
	if !t.HasToken {
		return
	}
	verdict := r.pass(c, t.Token)
	if verdict == history.Accepted {
		c.fenced++
	}
	r.record(t, history.FencedRegister, history.RegisterWrite, c.fenced, based.fenced, verdict)
}

func (r *Resource) pass(c *registers, token int64) history.Verdict {
	if !r.gate(token, c.highest) {
		return history.Rejected
	}
	c.highest = max(c.highest, token)
	return history.Accepted
}

func (r *Resource) record(t *Tenure, register, kind string, version, based int64, v history.Verdict) {
	token := t.Token
	if register == history.OpenRegister {
		token = 0
	}
	r.scene.Record(&history.Event{Type: history.Happen, Op: history.Register, Register: register, Kind: kind,
		Key: t.Key, Tenure: t.ID, Token: token, Version: version, BasedOn: based, Accepted: v})
}
