package explore

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// Contract runs cases against the lock in a world that is struck by nothing but
// them, in virtual time. Cases that need a power that the service does not
// offer, or operating-system processes, say that they are unsupported.
func Contract(t *testing.T, h *Harness, opts *contract.Options) (report *result.Report, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = stuck(p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		o := contract.Options{Seed: 1}
		if opts != nil {
			o = *opts
		}
		if o.Lease == 0 {
			o.Lease = 500 * time.Millisecond
		}
		w := newWorld(uint64(o.Seed), &plan{network: network{least: 50 * time.Microsecond, most: time.Millisecond}, lease: o.Lease, open: true, proven: true})
		w.service = h.service(w)
		for range w.service.Servers() {
			w.doors = append(w.doors, &gate{w: w})
			w.traffic = append(w.traffic, map[traffic]int{})
		}
		c := &calm{w: w, h: h, lease: o.Lease, nodes: map[*Node]lockspec.Client{}}
		report, err = contract.Check(t.Context(), c, &o)
		w.end()
		for _, inner := range c.clients {
			_ = inner.Close()
		}
		synctest.Wait()
	})
	return report, err
}

// calm is a world without faults as a harness of the contract.
type calm struct {
	w       *World
	h       *Harness
	lease   time.Duration
	mu      sync.Mutex
	nodes   map[*Node]lockspec.Client // that its processes share
	clients []lockspec.Client
}

// process is a client of a node that others use too.
type process struct{ *client }

// Close leaves the node's client to the others.
func (process) Close() error { return nil }

// Open implements contract.Harness.
func (c *calm) Open(_ context.Context, node string) (lockspec.Client, error) {
	n := c.w.Node(node)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[n] == nil {
		inner, err := c.h.Open(n)
		if err != nil {
			return nil, err
		}
		c.nodes[n] = inner
		c.clients = append(c.clients, inner)
	}
	return process{&client{n, c.nodes[n]}}, nil
}

// Describe implements contract.Harness.
func (c *calm) Describe() lockspec.Description { return c.h.Describe(c.lease) }
