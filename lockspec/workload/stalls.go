package workload

import (
	"context"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Sampler watches the controller itself: a gap between two ticks that is longer
// than a tick by more than over is a time in which the harness did not run, and
// counts as a pause of every node. Without it, a busy machine would be blamed
// on the lock.
//
// So is a time of which the harness did not get a quarter, however little each
// tick was late: a renewal passes through many hands, and each of them waits.
// That is added up over ten times what over says, which is a lease.
type Sampler struct {
	rec   *history.Recorder
	every time.Duration
	over  time.Duration

	mu    sync.Mutex
	last  int64
	worst time.Duration
	lags  []lag
	told  int // of the lags: those that a recorded stall covers
	clock clockWatch
	stop  context.CancelFunc
	done  chan struct{}
}

// lag is a tick that came late.
type lag struct {
	at int64
	by time.Duration
}

// Ticks that are late by less are what a timer is.
const timerNoise = time.Millisecond

// NewSampler starts watching. Stop ends it.
func NewSampler(rec *history.Recorder, every, over time.Duration) *Sampler {
	ctx, stop := context.WithCancel(context.Background())
	s := &Sampler{rec: rec, every: every, over: over, last: rec.Now(), stop: stop, done: make(chan struct{})}
	go s.loop(ctx)
	return s
}

func (s *Sampler) loop(ctx context.Context) {
	defer close(s.done)
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.Check()
		}
	}
}

// Check looks at the gap up to now. A verdict calls it before it counts, so
// that a stall which is not over yet is not missed.
func (s *Sampler) Check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.rec.Now()
	gap := time.Duration(now-s.last) - s.every
	s.worst = max(s.worst, gap)
	if gap > timerNoise {
		s.lags = append(s.lags, lag{now, gap})
	}
	from := s.last
	if gap <= s.over {
		from = s.starved(now)
	}
	if from < now {
		RecordStall(s.rec, checker.Controller, from, now)
		s.told = len(s.lags)
	}
	s.last = now
	s.clock.look(s.rec)
}

// starved is since when the harness has been starved, with s.mu held; now: it is
// not. What a recorded stall covers does not count again.
func (s *Sampler) starved(now int64) int64 {
	var sum time.Duration
	for i := len(s.lags) - 1; i >= s.told && s.lags[i].at >= now-int64(10*s.over); i-- {
		if sum += s.lags[i].by; sum > 10*s.over/4 {
			return s.lags[i].at - int64(s.lags[i].by)
		}
	}
	return now
}

// ClockStep is the worst step of a clock that was seen, and what it means; 0:
// none. Verdicts about leases mean nothing then.
func (s *Sampler) ClockStep() (time.Duration, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.step, s.clock.why
}

// Worst is the worst gap so far, beyond a tick.
func (s *Sampler) Worst() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.worst)
}

// Since is by how much, together, ticks were late since then, in time of the
// run: what a duration that was measured meanwhile may be too long by.
func (s *Sampler) Since(then int64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum time.Duration
	for i := len(s.lags) - 1; i >= 0 && s.lags[i].at >= then; i-- {
		sum += s.lags[i].by
	}
	return sum
}

// Stop ends the watch after a last look.
func (s *Sampler) Stop() {
	s.stop()
	<-s.done
	s.Check()
}

// RecordStall records that a node, or the controller, did not run. It belongs
// to no case: it concerns all.
func RecordStall(rec *history.Recorder, target string, from, to int64) {
	rec.Record(&history.Event{Type: history.Happen, Op: history.Fault, ID: "stall-" + target, Fault: "stall",
		Hazard: lockspec.Pause, Targets: []string{target}, Phase: history.Observed, Origin: history.Found, From: from, To: to})
}

// Calibrate is the worst gap that this machine showed in the time, by sleeping
// short and measuring how long it took.
func Calibrate(ctx context.Context, d time.Duration) time.Duration {
	const nap = 2 * time.Millisecond
	var worst time.Duration
	for start := time.Now(); time.Since(start) < d && ctx.Err() == nil; {
		before := time.Now()
		_ = Sleep(ctx, nap)
		worst = max(worst, time.Since(before)-nap)
	}
	return worst
}
