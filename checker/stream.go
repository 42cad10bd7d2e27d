package checker

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Stream checks a history while it is read, key by key, against one [Model]:
// the service's promise, without causes and containment, which [Judge] knows.
// It needs no search: see chain, certain and the proofs there.
//
// Memory is bounded by what is open: tenures are forgotten once they can
// overlap nobody, keys once nothing is open on them; of a key with tokens, the
// highest is kept. A violation is told as soon as no later event can undo it.
//
// Add and Close are for one goroutine; keys are checked in parallel.
// Callback-style sections are left to Judge, which knows when they surely ended:
// a history with some is not passed.
type Stream struct {
	model  Model
	seed   maphash.Seed
	shards []*shard
	batch  [][]op // one for each shard that has a goroutine
	wait   sync.WaitGroup
	events int

	sections int // that were not looked at
}

// StreamOptions are the options of a stream.
type StreamOptions struct {
	// Found is called with every violation, one call at a time, from any
	// goroutine. nil: they are only counted and kept, up to the first hundred.
	Found func(Finding)
	// Workers is how many goroutines check; 0: as many as there are cores
	// beside the one that reads. A single one checks within Add: handing events
	// over costs more than checking them.
	Workers int

	_ struct{}
}

// Summary is what a stream saw.
type Summary struct {
	Outcome    Outcome
	Findings   []Finding // the first hundred; certain ones and doubts
	Violations int
	Doubts     int
	Events     int
	Tenures    int
}

// mostKept bounds the findings of a summary.
const mostKept = 100

// NewStream starts a check.
func NewStream(h *history.Header, m Model, o *StreamOptions) *Stream {
	if o == nil {
		o = &StreamOptions{}
	}
	workers := o.Workers
	if workers == 0 {
		workers = max(1, runtime.GOMAXPROCS(0)-1)
	}
	s := &Stream{model: m.For(h), seed: maphash.MakeSeed()}
	report := &reporter{found: o.Found}
	for range workers {
		s.shards = append(s.shards, newShard(h, s.model, report))
	}
	if workers > 1 {
		s.batch = make([][]op, workers)
		for _, d := range s.shards {
			d.in, d.used = make(chan []op, 2), make(chan []op, 4)
			s.wait.Go(d.run)
		}
	}
	return s
}

// reporter collects what the shards find.
type reporter struct {
	mu      sync.Mutex
	found   func(Finding)
	summary Summary
}

func (r *reporter) report(f Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.Certainty == "" {
		f.Certainty = Certain
	}
	if f.Certainty == Certain {
		r.summary.Violations++
	} else {
		r.summary.Doubts++
	}
	if len(r.summary.Findings) < mostKept {
		r.summary.Findings = append(r.summary.Findings, f)
	}
	if r.found != nil {
		r.found(f)
	}
}

// op is what of an event a shard needs.
type op struct {
	stamp                       Moment
	what                        history.Op
	kind                        history.Type
	outcome                     lockspec.Outcome
	read, left                  bool
	count                       int32
	lease, token, sent, raised  int64
	key, process, owner, tenure string
	node                        string
	fault                       *history.Event
}

// batchSize is a compromise between the cost of a hand-over and its delay.
const batchSize = 1024

// Add checks the next event, which must be in order and well-formed. It does
// not keep the event, only its strings.
func (s *Stream) Add(e *history.Event) {
	s.events++
	switch e.Op {
	case history.Acquire, history.Release, history.Renew, history.Held, history.Write, history.Lost, history.Renewed, history.Late:
	case history.Fault, history.Exit, history.Shutdown:
		s.broadcast(e)
		return
	case history.Entered:
		s.sections++
		return
	default:
		return
	}
	o := op{stamp: stamp(e), what: e.Op, kind: e.Type, outcome: e.Error, read: e.Mode == lockspec.Read, count: int32(max(1, e.Count)),
		lease: int64(e.Lease), token: e.Token, sent: e.Sent, raised: e.Driver,
		key: e.Key, process: e.Process, owner: e.Owner, tenure: e.Tenure, node: e.Node}
	if e.Op == history.Renew && e.Type != history.OK {
		o.lease = int64(e.Ask)
	}
	if e.Left != 0 {
		o.lease, o.left = int64(e.Left), true
	}
	if e.Op == history.Late {
		o.outcome = e.Outcome
	}
	if len(s.shards) == 1 {
		s.shards[0].apply(&o)
		return
	}
	n := int(maphash.String(s.seed, o.key) % uint64(len(s.shards)))
	s.send(n, o)
}

func (s *Stream) send(n int, o op) {
	if s.batch[n] == nil {
		select {
		case used := <-s.shards[n].used:
			s.batch[n] = used[:0]
		default:
			s.batch[n] = make([]op, 0, batchSize)
		}
	}
	if s.batch[n] = append(s.batch[n], o); len(s.batch[n]) == batchSize {
		s.flush(n)
	}
}

func (s *Stream) flush(n int) {
	if len(s.batch[n]) > 0 {
		s.shards[n].in <- s.batch[n]
		s.batch[n] = nil
	}
}

// broadcast hands what concerns every key to every shard.
func (s *Stream) broadcast(e *history.Event) {
	copied := *e
	o := op{stamp: stamp(e), what: e.Op, kind: e.Type, node: e.Node, fault: &copied}
	for n, d := range s.shards {
		if len(s.shards) == 1 {
			d.apply(&o)
		} else {
			s.send(n, o)
		}
	}
}

// Close checks what was still open and sums up. The stream must not be used
// any more.
func (s *Stream) Close() *Summary {
	for n := range s.batch {
		s.flush(n)
		close(s.shards[n].in)
	}
	s.wait.Wait()
	sum := &s.shards[0].report.summary
	for _, d := range s.shards {
		d.finish()
		sum.Tenures += d.granted
	}
	if s.sections > 0 {
		s.shards[0].report.report(Finding{Kind: Overlap, Rule: "sections", Level: Service, Certainty: "sections are judged without a model only",
			Message: fmt.Sprintf("%d sections were not looked at", s.sections)})
	}
	sum.Events, sum.Outcome = s.events, Pass
	switch {
	case sum.Violations > 0:
		sum.Outcome = Failed
	case sum.Doubts > 0:
		sum.Outcome = Inconclusive
	}
	return sum
}
