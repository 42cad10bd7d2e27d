package contract

import (
	"context"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func sampleEvery(lease time.Duration) time.Duration { return min(lease/20, 50*time.Millisecond) }

// watch records from now on by what this machine keeps anybody from running:
// the harness, a node, or a service of the harness's own.
func (c *check) watch(rec *history.Recorder) {
	every, over := sampleEvery(c.lease), c.lease/10
	c.sampler = workload.NewSampler(rec, every, over)
	if p, ok := c.h.(Pinger); ok {
		c.pulse = workload.NewPulse(rec, every, over, p.Ping)
	}
	if w, ok := c.h.(Observer); ok {
		w.Observe(rec)
	}
}

// unwatch ends the watch, after which the recorder may be closed.
func (c *check) unwatch() {
	if w, ok := c.h.(Observer); ok {
		w.Observe(nil)
	}
	if c.pulse != nil {
		c.pulse.Stop()
	}
	c.sampler.Stop()
}

// stalled is how long, at most, this machine kept the harness or a node from
// running since then, in time of the run.
func (c *check) stalled(ctx context.Context, since int64) time.Duration {
	c.look(ctx)
	_ = c.work.Recorder.Sync() // what could not be written is told when the case is settled
	return c.sampler.Since(since) + c.log.nodesStalled(since)
}

// look returns once whatever stood still before the call is recorded.
func (c *check) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var all sync.WaitGroup
	if c.pulse != nil {
		all.Go(func() { c.pulse.Check(ctx) })
	}
	if w, ok := c.h.(Observer); ok {
		w.Settle(ctx)
	}
	all.Wait()
	c.sampler.Check()
}
