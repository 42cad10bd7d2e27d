// Package interference decides what becomes of requests on their way to a
// service: a relay that knows one request from the next asks it of each, and
// does what it says. It also counts the requests that went through, and knows
// whether a fault of the harness's own keeps the service silent.
package interference

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Kind is what becomes of a request. The words are those of lockspec/contract.
type Kind string

// The kinds.
const (
	DropRequest Kind = "drop-request" // never reaches the service
	HoldRequest Kind = "hold-request" // reaches it when lifted
	DropReply   Kind = "drop-reply"   // took effect, never answered
	HoldReply   Kind = "hold-reply"   // took effect, answered when lifted
)

// Rules are the interferences in force, and the counts of what went through.
// The zero value has none.
type Rules struct {
	mu  sync.Mutex
	all []*Rule
	by  map[[2]string]int // operation and key
}

// Rule is an interference in force.
type Rule struct {
	What    Kind
	op, key string
	times   int // left; -1: no limit
	once    sync.Once
	struck  chan struct{}
	lifted  chan struct{}
}

// Hit notes that the rule has struck.
func (r *Rule) Hit() { r.once.Do(func() { close(r.struck) }) }

// Lifted is closed when the rule is over.
func (r *Rule) Lifted() <-chan struct{} { return r.lifted }

// Strike finds the rule for a request, and uses it up by one; nil: there is
// none. A request with an empty op is none of the lock's.
func (s *Rules) Strike(op, key string) *Rule {
	if op == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if r.times == 0 || r.op != "" && r.op != op || r.key != "" && r.key != key {
			continue
		}
		if r.times > 0 {
			r.times--
		}
		return r
	}
	return nil
}

// Spare gives back what Strike used up, where the request turned out not to be
// what the rule is about. Nil is no rule.
func (s *Rules) Spare(r *Rule) {
	if r == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.times >= 0 {
		r.times++
	}
}

// Interfere strikes the next requests that match, times of them; -1: all,
// until lifted. Empty words match all that is the lock's.
func (s *Rules) Interfere(what Kind, op, key string, times int) (*Struck, error) {
	if !slices.Contains([]Kind{DropRequest, HoldRequest, DropReply, HoldReply}, what) {
		return nil, fmt.Errorf("%w: unknown interference %q", lockspec.ErrConfig, what)
	}
	if times == 0 {
		return nil, fmt.Errorf("%w: interference with no request", lockspec.ErrConfig)
	}
	x := &Rule{What: what, op: op, key: key, times: times, struck: make(chan struct{}), lifted: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, x)
	return &Struck{s, x}, nil
}

// Struck is an interference under way.
type Struck struct {
	rules *Rules
	rule  *Rule
}

// Await returns once it has struck.
func (s *Struck) Await(ctx context.Context) error {
	select {
	case <-s.rule.struck:
		return nil
	case <-ctx.Done():
		return lockspec.ErrTimeout
	}
}

// Lift ends it and lets go what it holds. It is safe to call twice.
func (s *Struck) Lift(context.Context) error {
	s.rules.mu.Lock()
	defer s.rules.mu.Unlock()
	if i := slices.Index(s.rules.all, s.rule); i >= 0 {
		s.rules.all = slices.Delete(s.rules.all, i, i+1)
		close(s.rule.lifted)
	}
	return nil
}

// Count notes that n requests went through.
func (s *Rules) Count(op, key string, n int) {
	if op == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[[2]string]int{}
	}
	s.by[[2]string{op, key}] += n
}

// Requests is how many requests that match went through. Empty words match all.
func (s *Rules) Requests(op, key string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, times := range s.by {
		if (op == "" || op == k[0]) && (key == "" || key == k[1]) {
			n += times
		}
	}
	return n
}
