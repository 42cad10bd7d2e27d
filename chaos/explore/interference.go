package explore

import (
	"context"
	"errors"

	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// interference strikes requests on their way until it is lifted. Under the
// world's mutex.
type interference struct {
	w    *World
	what contract.Interference
	op   string
	key  string
	left []int // of each server: how many more; -1: all

	struck, lifted chan struct{}
	hit, over      bool
}

// Interfere implements contract.Interferer. A lock that asks several servers
// has its next requests struck at each of them.
func (c *calm) Interfere(_ context.Context, what contract.Interference, op, key string, times int) (contract.Struck, error) {
	i := &interference{w: c.w, what: what, op: op, key: key, struck: make(chan struct{}), lifted: make(chan struct{})}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for range c.w.service.Servers() {
		i.left = append(i.left, times)
	}
	c.w.strikes = append(c.w.strikes, i)
	return i, nil
}

// Await implements contract.Struck.
func (i *interference) Await(ctx context.Context) error {
	select {
	case <-i.struck:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-i.w.over:
		return errors.New("the world has ended")
	}
}

// Lift implements contract.Struck.
func (i *interference) Lift(context.Context) error {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	if !i.over {
		i.over = true
		close(i.lifted)
	}
	return nil
}

// matches takes the message if it is one that is to be struck.
func (i *interference) matches(m *message) bool {
	isOp := i.op == "" || i.op == string(m.q.Op) || i.op == string(Release) && m.q.Op == Delete
	if i.over || !isOp || i.key != "" && i.key != m.q.Key || i.left[m.server] == 0 {
		return false
	}
	if i.left[m.server] > 0 {
		i.left[m.server]--
	}
	return true
}

// interfered is what strikes the message; nil: nothing does.
func (m *message) interfered() *interference {
	m.n.w.mu.Lock()
	defer m.n.w.mu.Unlock()
	for _, i := range m.n.w.strikes {
		if i.matches(m) {
			return i
		}
	}
	return nil
}

// landed says that it has struck.
func (i *interference) landed() {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	if !i.hit {
		i.hit = true
		close(i.struck)
	}
}

// held waits until the interference is lifted; false: the caller gave up, its
// node ended or the world did.
func (i *interference) held(ctx context.Context, n *Node) bool {
	select {
	case <-i.lifted:
		return true
	case <-ctx.Done():
	case <-n.gone:
	case <-i.w.over:
	}
	return false
}

// divert sends a message its way under an interference.
func (i *interference) divert(ctx context.Context, m *message) (Reply, error) {
	switch i.what {
	case contract.DropRequest:
		i.landed()
		return m.silence(ctx)
	case contract.HoldRequest:
		i.landed()
		if i.held(ctx, m.n) {
			return m.exchange(ctx)
		}
		go func() { // it arrives all the same
			if i.held(context.Background(), m.n) {
				m.arrive()
			}
		}()
		return m.lost(ctx)
	}
	if !m.through(ctx.Done(), m.n.gone) || !m.apply() {
		return m.silence(ctx)
	}
	i.landed()
	if i.what == contract.HoldReply && i.held(ctx, m.n) {
		return m.answer(ctx)
	}
	return m.silence(ctx)
}
