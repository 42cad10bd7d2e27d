package chaos

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// The numbers of the catalogue.
const (
	herdSize   = 1000
	poolSize   = 100
	soakCycles = 1000
	hotFor     = 5 * time.Second
)

// herd lets a thousand wait for a key that is released: each is let in, one at
// a time, for as long as a few leases last, and the service is asked no more
// often than by a few.
func (s *scenario) herd(ctx context.Context) {
	p := s.env.MustProcess(ctx, s.node(0))
	t, err := workload.AcquireSoon(ctx, p, s.request(), s.load().Poll)
	if err != nil {
		s.env.Inconclusive("the key was never free: %v", err)
		return
	}
	waiting, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	var served atomic.Int64
	r := s.request()
	r.Wait = lockspec.NoLimit
	for _, q := range s.crowd(ctx, herdSize) {
		all.Go(func() {
			got, err := q.Acquire(waiting, r)
			if err != nil {
				return
			}
			served.Add(1)
			_ = s.env.Release(ctx, got)
			got.Stop()
		})
	}
	wait(ctx, s.env.Lease/2) // they stand in the queue
	before, counts := s.requests(ctx)
	began := time.Now()
	_ = s.env.Release(ctx, t)
	t.Stop()
	wait(ctx, 4*s.env.Lease)
	took := time.Since(began)
	got := served.Load()
	asked, _ := s.requests(ctx)
	end()
	all.Wait()
	s.env.Story("%d of %d waiters were served in %s", got, herdSize, took.Round(time.Millisecond))
	if got == 0 {
		s.env.Inconclusive("nobody of the crowd was let in within %s", took)
	}
	if counts && got > 0 {
		per := float64(asked-before) / float64(got)
		s.env.Story("%.1f attempts reached the service for each", per)
		if per > 4*Nodes && asked-before > herdSize {
			s.env.Fail(checker.Efficiency, "herd", "%d attempts reached the service while %d of %d waiters were served: %.1f each", asked-before, got, herdSize, per)
		}
	}
}

// crowd is so many processes, on as many nodes as take them.
func (s *scenario) crowd(ctx context.Context, size int) (crowd []*workload.Process) {
	first := lanes * Nodes // nodes of nobody else's
	for n := 0; len(crowd) < size; n++ {
		name := fmt.Sprintf("%s%d", NodePrefix, first+n+1)
		for range min(s.room(ctx, name), size-len(crowd)) {
			crowd = append(crowd, s.env.MustProcess(ctx, name))
		}
	}
	return crowd
}

// room is how many operations may be open on a node, and some to spare.
func (s *scenario) room(ctx context.Context, node string) int {
	const unlimited = herdSize / Nodes
	if _, ok := s.env.Power().(contract.NodeHost); !ok {
		return unlimited
	}
	if most := s.env.MustNode(ctx, node).MaxProcesses(); most > 0 {
		return max(1, min(unlimited, most-8))
	}
	return unlimited
}

// requests is how many attempts to acquire have reached the service.
func (s *scenario) requests(ctx context.Context) (int, bool) {
	c, ok := s.env.Power().(contract.TrafficCounter)
	if !ok {
		return 0, false
	}
	n, err := c.Requests(ctx, "acquire", s.key)
	return n, err == nil
}

// hotKey contends for one key with the shortest of work, and tells how fast and
// how fair that was. It is judged as any history is.
func (s *scenario) hotKey(ctx context.Context) {
	hot, end := context.WithTimeout(ctx, hotFor)
	defer end()
	held := make([]int, Nodes)
	var all sync.WaitGroup
	for n := range Nodes {
		p, rng := s.env.MustProcess(ctx, s.node(n)), s.env.RandFor(n)
		l := s.load()
		l.Work, l.Poll, l.Polls = time.Millisecond, 4*time.Millisecond, false
		all.Go(func() { held[n] = workload.Contend(hot, p, rng, l) })
	}
	all.Wait()
	sum, squares := 0.0, 0.0
	for _, n := range held {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if sum == 0 {
		s.env.Inconclusive("nobody got the key in %s", hotFor)
		return
	}
	// Jain, Chiu, Hawe: A Quantitative Measure of Fairness (1984): 1 is even, 1/n is one takes all.
	s.env.Story("%.0f acquisitions a second; fairness %.2f of 1 among %d nodes", sum/hotFor.Seconds(), sum*sum/(Nodes*math.Max(squares, 1)), Nodes)
}

// manyWaiters lets a hundred processes of a holder's node wait for keys that
// another holds: the holder's own must be renewed all the same.
func (s *scenario) manyWaiters(ctx context.Context) {
	holder, other := s.env.MustProcess(ctx, s.node(0)), s.env.MustProcess(ctx, s.node(1))
	t, err := workload.AcquireSoon(ctx, holder, s.request(), s.load().Poll)
	if err != nil {
		s.env.Inconclusive("the key was never free: %v", err)
		return
	}
	defer t.Stop()
	waiting, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	var kept []*workload.Tenure
	each := max(1, min(poolSize, s.room(ctx, s.node(0)))/10)
	for n := range 10 {
		r := s.request()
		r.Key = s.env.Key(fmt.Sprintf("w%d", n))
		k, err := workload.AcquireSoon(ctx, other, r, s.load().Poll)
		if err != nil {
			s.env.Inconclusive("the other holder got no key to wait for: %v", err)
			return
		}
		kept = append(kept, k)
		r.Wait = lockspec.NoLimit
		for range each {
			q := s.env.MustProcess(ctx, s.node(0))
			all.Go(func() {
				if got, err := q.Acquire(waiting, r); err == nil {
					_ = s.env.Release(ctx, got)
					got.Stop()
				}
			})
		}
	}
	err = t.Write(ctx, 3*s.env.Term())
	_ = s.env.Release(ctx, t)
	if err != nil && ctx.Err() == nil {
		s.env.Inconclusive("the holder did not work beside its waiters: %v", err)
	}
	s.env.Story("held for %s while %d processes of the same node waited for other keys", 3*s.env.Term(), 10*each)
	end()
	all.Wait()
	for _, k := range kept {
		_ = s.env.Release(ctx, k)
		k.Stop()
	}
}

// randomKills kills one node after the other at random moments, while all
// contend, until the key was held a thousand times or the time is up.
func (s *scenario) randomKills(ctx context.Context) {
	limit := 20 * time.Second
	if s.env.Term() > 3*time.Second {
		limit = 6 * s.env.Term()
	}
	bounded, end := context.WithTimeout(ctx, limit)
	defer end()
	var held atomic.Int64
	var all sync.WaitGroup
	var kills atomic.Int64
	for n := range Nodes {
		name, rng := s.node(n), s.env.RandFor(n)
		pause := rng.Perm(8)
		all.Go(func() {
			for round := 0; bounded.Err() == nil && held.Load() < soakCycles; round++ {
				p, err := s.env.Process(ctx, name)
				if err != nil {
					return
				}
				l := s.load()
				l.Work, l.Poll, l.Polls, l.Count = time.Millisecond, 8*time.Millisecond, false, 1
				life, die := context.WithTimeout(bounded, s.env.Term()*time.Duration(2+pause[round%8])/2)
				for life.Err() == nil && held.Load() < soakCycles {
					held.Add(int64(workload.Contend(life, p, rng, l)))
				}
				die()
				if bounded.Err() != nil || held.Load() >= soakCycles {
					return
				}
				step := Step{Fault: "kill", Node: name}
				if !s.strike(ctx, fmt.Sprintf("%s-%s-%d", s.env.Case.ID, name, round), step) {
					return
				}
				kills.Add(1)
			}
		})
	}
	all.Wait()
	s.env.Story("held %d times, %d nodes killed", held.Load(), kills.Load())
	if kills.Load() == 0 {
		s.env.Inconclusive("the key was held %d times before anybody could be killed", held.Load())
	}
}

// rollingRestart ends every node in order and starts it anew, one after the
// other, while all contend.
func (s *scenario) rollingRestart(ctx context.Context) {
	if err := s.world.Can(fault("shutdown")); err != nil {
		s.env.MustUnsupported("%v", err)
	}
	loaded, end := context.WithCancel(ctx)
	defer end()
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	var all sync.WaitGroup
	restarted := make([]bool, Nodes)
	var once sync.WaitGroup
	once.Add(Nodes)
	for n := range Nodes {
		name, rng := s.node(n), s.env.RandFor(n)
		all.Go(func() {
			done := sync.OnceFunc(once.Done)
			defer done()
			p, err := s.env.Process(ctx, name)
			if err != nil {
				return
			}
			l := s.load()
			l.Count = 2
			workload.Contend(loaded, p, rng, l)
			select {
			case <-turn:
			case <-loaded.Done():
				return
			}
			restarted[n] = s.strike(ctx, fmt.Sprintf("%s-f%d", s.env.Case.ID, n+1), Step{Fault: "shutdown", Node: name})
			if p, err = s.env.Process(ctx, name); err == nil {
				workload.Contend(loaded, p, rng, l)
			}
			turn <- struct{}{}
			done()
			l.Count = 0
			if err == nil {
				workload.Contend(loaded, p, rng, l)
			}
		})
	}
	once.Wait()
	end()
	all.Wait()
	var missing []string
	for n, ok := range restarted {
		if !ok {
			missing = append(missing, s.node(n))
		}
	}
	if len(missing) > 0 {
		s.env.Inconclusive("not restarted: %s", strings.Join(missing, ", "))
	}
}
