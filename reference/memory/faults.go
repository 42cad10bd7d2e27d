package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Fault is what the admin port does to requests of the data port.
type Fault string

// The faults.
const (
	DropRequest Fault = "drop-request" // read, never applied
	HoldRequest Fault = "hold-request" // applied when the fault is lifted
	DropReply   Fault = "drop-reply"   // applied, never answered
	HoldReply   Fault = "hold-reply"   // applied, answered when the fault is lifted
)

type rule struct {
	id     int64
	fault  Fault
	of     string
	key    string
	times  int // left; -1: no limit
	struck chan struct{}
	lifted chan struct{}
}

// means says whether an op is meant by a word that a rule or a count names;
// empty means any. A plain delete is how a broken lock releases.
func means(of, op string) bool {
	return of == "" || of == op || of == "release" && op == "delete"
}

// faults are the rules in force, and the stall.
type faults struct {
	mu      sync.Mutex
	next    int64
	rules   []*rule // in force, or struck and not yet lifted
	stalled chan struct{}
}

func (f *faults) add(r rule) (int64, error) {
	if !slices.Contains([]Fault{DropRequest, HoldRequest, DropReply, HoldReply}, r.fault) {
		return 0, fmt.Errorf("%w: unknown fault %q", lockspec.ErrConfig, r.fault)
	}
	if r.times == 0 {
		r.times = 1
	}
	r.struck, r.lifted = make(chan struct{}), make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	r.id = f.next
	f.rules = append(f.rules, &r)
	return r.id, nil
}

// strike finds the rule for a request, if there is one.
func (f *faults) strike(m message) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.times == 0 || !means(r.of, m.Op) || r.key != "" && r.key != m.Key {
			continue
		}
		if r.times > 0 {
			r.times--
		}
		return r
	}
	return nil
}

// hit tells whoever awaits the rule that it has struck: a request that it lets
// through has taken effect by then.
func (f *faults) hit(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !closed(r.struck) {
		close(r.struck)
	}
}

func (f *faults) find(id int64) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.id == id {
			return r
		}
	}
	return nil
}

// lift ends one rule, or all for 0.
func (f *faults) lift(id int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.rules)
	f.rules = slices.DeleteFunc(f.rules, func(r *rule) bool {
		if id == 0 || r.id == id {
			close(r.lifted)
			return true
		}
		return false
	})
	return id == 0 || len(f.rules) < n
}

func (f *faults) stall() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stalled == nil {
		f.stalled = make(chan struct{})
	}
}

func (f *faults) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stalled != nil {
		close(f.stalled)
		f.stalled = nil
	}
}

// gate waits while the server is stalled.
func (f *faults) gate(ctx context.Context) {
	f.mu.Lock()
	stalled := f.stalled
	f.mu.Unlock()
	if stalled != nil {
		wait(ctx, stalled)
	}
}

// wait says whether the channel was closed before ctx ended.
func wait(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// data answers a request of the data port, through the faults.
func (s *server) data(ctx context.Context, m message, reply func(message)) {
	s.counts.add(m)
	s.faults.gate(ctx)
	r := s.faults.strike(m)
	if r == nil {
		reply(s.apply(m))
		return
	}
	var answer message
	if r.fault == DropReply || r.fault == HoldReply {
		answer = s.apply(m)
	}
	s.faults.hit(r)
	switch r.fault {
	case HoldRequest:
		s.working.Go(func() {
			if wait(ctx, r.lifted) {
				reply(s.apply(m))
			}
		})
	case HoldReply:
		s.working.Go(func() {
			if wait(ctx, r.lifted) {
				reply(answer)
			}
		})
	}
}

// counts counts the requests of the data port.
type counts struct {
	mu sync.Mutex
	by map[counted]int
}

type counted struct{ op, key string }

func (c *counts) add(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[counted]int)
	}
	c.by[counted{m.Op, m.Key}]++
}

// of counts the requests with that op and key; an empty one means any.
func (c *counts) of(op, key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for k, times := range c.by {
		if means(op, k.op) && (key == "" || k.key == key) {
			n += times
		}
	}
	return n
}

// admin answers a request of the admin port.
func (s *server) admin(ctx context.Context, m message, reply func(message)) {
	answer, err := s.administer(ctx, m)
	if err != nil {
		answer = message{Outcome: lockspec.OutcomeOf(err), Message: err.Error()}
	} else {
		answer.Outcome = lockspec.OK
	}
	answer.ID = m.ID
	reply(answer)
}

func (s *server) administer(ctx context.Context, m message) (reply message, err error) {
	switch m.Op {
	case "count":
		reply.Count = s.counts.of(m.Of, m.Key)
	case "fault":
		reply.FaultID, err = s.faults.add(rule{fault: Fault(m.Fault), of: m.Of, key: m.Key, times: m.Times})
	case "await":
		err = s.await(ctx, m)
	case "lift":
		if !s.faults.lift(m.FaultID) {
			err = lockspec.ErrNotHeld
		}
	case "inspect":
		for _, h := range s.store.Inspect(m.Key) {
			reply.Holders = append(reply.Holders, wireHolder{h.Owner, h.Token, h.Mode, h.Count, int64(h.Left)})
		}
	case "seed":
		s.store.Delete(m.Key)
		reply.Token, err = s.store.Acquire(Request{Key: m.Key, Owner: m.Owner, Lease: m.lease()})
	case "evict":
		if !s.store.Delete(m.Key) {
			err = lockspec.ErrNotHeld
		}
	case "restart":
		s.store.Restart()
		s.closeData()
	case "shift":
		s.store.Shift(time.Duration(m.By))
	case "stall":
		s.faults.stall()
	case "resume":
		s.faults.resume()
	case "ping":
	default:
		err = fmt.Errorf("%w: op %q", lockspec.ErrUnsupported, m.Op)
	}
	return reply, err
}

// await waits until a fault has struck.
func (s *server) await(ctx context.Context, m message) error {
	r := s.faults.find(m.FaultID)
	if r == nil {
		return fmt.Errorf("%w: no fault %d", lockspec.ErrConfig, m.FaultID)
	}
	ctx, cancel := s.store.clock.WithTimeout(ctx, time.Duration(m.Wait))
	defer cancel()
	if !wait(ctx, r.struck) {
		return lockspec.ErrTimeout
	}
	return nil
}
