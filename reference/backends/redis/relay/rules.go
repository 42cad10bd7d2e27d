package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Interference is what becomes of a request on its way. The words are those of
// lockspec/contract.
type Interference string

// The interferences.
const (
	DropRequest Interference = "drop-request" // never reaches the server
	HoldRequest Interference = "hold-request" // reaches it when lifted
	DropReply   Interference = "drop-reply"   // took effect, never answered
	HoldReply   Interference = "hold-reply"   // took effect, answered when lifted
)

// rule is an interference in force.
type rule struct {
	what    Interference
	op, key string
	times   int // left; -1: no limit
	once    sync.Once
	struck  chan struct{}
	lifted  chan struct{}
}

// hit notes that the rule has struck.
func (r *rule) hit() { r.once.Do(func() { close(r.struck) }) }

type rules struct {
	mu  sync.Mutex
	all []*rule
}

// strike finds the rule for a request, and uses it up by one.
func (s *rules) strike(op, key string) *rule {
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

// Interfere strikes the next requests that match, times of them; -1: all,
// until lifted. Empty words match all that is the lock's.
func (r *Relay) Interfere(what Interference, op, key string, times int) (*Struck, error) {
	if !slices.Contains([]Interference{DropRequest, HoldRequest, DropReply, HoldReply}, what) {
		return nil, fmt.Errorf("%w: unknown interference %q", lockspec.ErrConfig, what)
	}
	if times == 0 {
		return nil, fmt.Errorf("%w: interference with no request", lockspec.ErrConfig)
	}
	x := &rule{what: what, op: op, key: key, times: times, struck: make(chan struct{}), lifted: make(chan struct{})}
	r.rules.mu.Lock()
	defer r.rules.mu.Unlock()
	r.rules.all = append(r.rules.all, x)
	return &Struck{r, x}, nil
}

// Struck is an interference under way.
type Struck struct {
	relay *Relay
	rule  *rule
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
	r := &s.relay.rules
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.all, s.rule); i >= 0 {
		r.all = slices.Delete(r.all, i, i+1)
		close(s.rule.lifted)
	}
	return nil
}

// counts counts what reached the server.
type counts struct {
	mu sync.Mutex
	by map[[2]string]int // operation and key
}

func (c *counts) add(op, key string, n int) {
	if op == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[[2]string]int{}
	}
	c.by[[2]string{op, key}] += n
}

// Requests is how many requests that match have reached the server. Empty
// words match all.
func (r *Relay) Requests(op, key string) (n int) {
	r.counts.mu.Lock()
	defer r.counts.mu.Unlock()
	for k, times := range r.counts.by {
		if (op == "" || op == k[0]) && (key == "" || key == k[1]) {
			n += times
		}
	}
	return n
}
