package explore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// Harness brings the lock under test into a world.
type Harness struct {
	// Service makes the service of a world; nil: NewLeaseServer.
	Service func(*World) Service
	// Open makes a client of the lock on a node, over the node's clock and
	// calls only. Closing it ends its goroutines.
	Open func(*Node) (lockspec.Client, error)
	// Describe says what the lock claims, when it is asked for such leases.
	Describe func(lease time.Duration) lockspec.Description
}

// Outcome is what one schedule showed.
type Outcome struct {
	Seed    uint64
	Events  []history.Event
	Header  *history.Header
	Verdict *checker.Verdict
	Stream  *checker.Summary
	Shape   uint64 // of the history without its times
	Struck  []Cell // that landed
	Planned []Cell
	Virtual time.Duration
	Took    time.Duration // of the machine's time
	Err     error         // of the world itself, not of the lock
}

// Cell is a cell of the table of coverage.
type Cell struct {
	Fault string
	Phase Phase
}

// run is one schedule.
type run struct {
	o       *Options
	h       *Harness
	world   *World
	plan    *plan
	scene   *workload.Scene
	desc    lockspec.Description
	opened  map[string]*Node
	clients []lockspec.Client
	mu      sync.Mutex
	events  []history.Event
	err     error

	collected atomic.Bool
}

// Run plays and judges the schedule of a seed, in a bubble of its own.
func Run(t *testing.T, h *Harness, seed uint64, o *Options) (out *Outcome) {
	o = o.withDefaults()
	out = &Outcome{Seed: seed}
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			out.Err = stuck(p)
		}
		out.Took = time.Since(began)
	}()
	synctest.Test(t, func(*testing.T) {
		defer func() {
			if p := recover(); p != nil {
				out.Err = fmt.Errorf("panic: %v\n%s", p, stack())
			}
		}()
		play(h, o, out)
	})
	return out
}

func play(h *Harness, o *Options, out *Outcome) {
	r := &run{o: o, h: h, opened: map[string]*Node{}}
	r.plan = draw(out.Seed, o.Size, o.choiceOf(h))
	w := newWorld(out.Seed, r.plan)
	w.service = h.service(w)
	for range w.service.Servers() {
		w.doors = append(w.doors, &gate{w: w})
	}
	r.world, r.desc = w, h.Describe(r.plan.lease)
	r.desc.Bounds = w.network.bounds(r.desc.Bounds)
	r.judged(out)
	out.Virtual = w.now()
	w.end()
	r.close()
	synctest.Wait()
	out.Err = r.err
}

// judged plays the schedule with a recorder, and judges.
func (r *run) judged(out *Outcome) {
	out.Header = r.header(out.Seed)
	stream := checker.NewStream(out.Header, checker.Model{Kind: checker.ModelAuto}, &checker.StreamOptions{Workers: 1})
	r.events = r.o.buffer[:0]
	rec, err := history.NewRecorder(*out.Header, &history.Options{
		Now: func() int64 { return int64(r.world.now()) + 1 },
		Direct: func(e *history.Event) {
			r.events = append(r.events, *e)
			stream.Add(e)
		},
	})
	if err != nil {
		r.err = err
		return
	}
	r.world.rec = rec
	r.scene = (&workload.Run{Recorder: rec}).NewScene("explore")
	r.contend()
	_ = rec.Close()
	r.o.buffer = r.events
	out.Events, out.Stream = r.events, stream.Close()
	out.Verdict = checker.Judge(out.Header, r.events)
	out.Shape = shape(r.events)
	for _, s := range r.plan.steps {
		c := Cell{s.fault.Name, allPhases[s.at.phase]}
		out.Planned = append(out.Planned, c)
		if s.landed {
			out.Struck = append(out.Struck, c)
		}
	}
}

func (h *Harness) service(w *World) Service {
	if h.Service == nil {
		return NewLeaseServer(w)
	}
	return h.Service(w)
}

// Faults names what can strike the lock in its worlds.
func (h *Harness) Faults() []string {
	var names []string
	for _, f := range (&Options{}).choiceOf(h).faults {
		names = append(names, f.Name)
	}
	return names
}

// choice is what a plan can choose from: the same for every world of a harness.
type choice struct {
	of      *Harness
	faults  []*Fault
	servers int
}

func (o *Options) choiceOf(h *Harness) choice {
	if o.choice.of != h {
		s := h.service(&World{began: time.Now()})
		o.choice = choice{h, h.faults(s, o), s.Servers()}
	}
	return o.choice
}

// faults are those that the world and its service have and the options allow,
// without what breaks every lock of the class. A partition is a fault for all:
// where the class may not declare it, it excuses nothing.
func (h *Harness) faults(s Service, o *Options) []*Fault {
	var all []*Fault
	for i := range worldFaults {
		all = append(all, &worldFaults[i])
	}
	own := append(s.Faults(), "server-pause")
	for i := range serviceFaults {
		if slices.Contains(own, serviceFaults[i].Name) {
			all = append(all, &serviceFaults[i])
		}
	}
	var out []*Fault
	for _, f := range all {
		if s.Class() == lockspec.Session && slices.Contains(notForSessions, f.Name) {
			continue
		}
		if _, ok := s.(Streamer); ok && slices.Contains(notForStreams, f.Name) {
			continue
		}
		beyond := f.Hazard != "" && f.Hazard != lockspec.Partition && !s.Class().Allows(f.Hazard)
		if !beyond && (o.Only == nil || o.Only(f.Name)) {
			out = append(out, f)
		}
	}
	return out
}

// notForStreams: what is written to a connection arrives once and in order.
var notForStreams = []string{"duplicate", "reorder"}

// notForSessions: a pause that its heartbeats do not outlive ends a session, and
// the rules do not say that it ends an entitlement: to judge it, a server that
// frees a stopped holder would be a service that promised twice.
var notForSessions = []string{"pause", "suspend"}

func (r *run) header(seed uint64) *history.Header {
	h := &history.Header{Version: history.FormatVersion, Clock: "virtual", Seed: int64(seed), Class: r.desc.Class,
		Capacity: r.desc.Capacity, Hazards: r.desc.Hazards, Bounds: r.desc.Bounds, Claims: map[lockspec.Feature]history.Claim{},
		Eps: 1, Profile: lockspec.Advisory}
	for _, f := range r.desc.Features {
		h.Claims[f] = history.Proven
	}
	if h.Claimed(lockspec.Fencing) {
		h.Profile = lockspec.FencedResource
	}
	return h
}

func (r *run) claims(f lockspec.Feature) bool { return r.desc.Claims(f) }

func (r *run) contend() {
	var all sync.WaitGroup
	for i := range r.o.Size.Nodes {
		c := &contender{r: r, node: nodeName(i), rng: rand.New(rand.NewPCG(r.world.Seed, uint64(i)+100))}
		c.process = r.open(c.node)
		all.Go(func() {
			c.sleep(context.Background(), 1, 20*time.Millisecond)
			c.run(context.Background(), r.o.Size.Tenures)
		})
	}
	all.Wait()
}

// collect collects garbage, once in some schedules, while the goroutines of the
// world are alive: the runtime takes the size of new stacks from those it
// finds then. At any other time it is not allowed to, because what it preempts
// would go on in another order.
func (r *run) collect() {
	if r.world.Seed%gcEvery == 0 && r.collected.CompareAndSwap(false, true) {
		runtime.GC()
	}
}

const gcEvery = 64

// ballast is memory that is counted and never touched. What schedules leave
// between two collections is small against it, so the runtime keeps those pages
// instead of returning them to the system each time and asking for them again,
// which took a third of the time. It is made once: made anew from memory that
// was used, it would have to be cleared.
var ballast = sync.OnceValue(func() []byte {
	if shuffled {
		return nil // the race detector keeps a shadow of every byte
	}
	return make([]byte, 256<<20)
})

// deepen keeps goroutines with deep stacks until end is called. The runtime
// gives new ones stacks of the size that it found on average when it last
// collected garbage; those of a world would have to grow theirs, which took an
// eighth of the time.
func deepen() (end func()) {
	c := make(chan struct{})
	for range 64 {
		go deep(c)
	}
	return func() { close(c) }
}

//go:noinline
func deep(c <-chan struct{}) {
	var frame [6 << 10]byte
	touch(&frame)
	<-c
	touch(&frame)
}

//go:noinline
func touch(frame *[6 << 10]byte) { frame[0]++ }

// open makes a process on the present life of the node.
func (r *run) open(name string) *workload.Process {
	n := r.world.Node(name)
	inner, err := r.h.Open(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.err = err
		return nil
	}
	r.opened[name] = n
	c := &client{n, inner}
	r.clients = append(r.clients, inner)
	return r.scene.NewProcess(name, c, nil)
}

// close ends what the clients left running.
func (r *run) close() {
	for _, c := range r.clients {
		_ = c.Close()
	}
}

// shape is a hash of a history without its times: who was answered what, in
// which order.
func shape(events []history.Event) uint64 {
	h := uint64(14695981039346656037)
	add := func(s string) {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	for i := range events {
		e := &events[i]
		add(string(e.Type))
		add(string(e.Op))
		add(e.Process)
		add(e.Tenure)
		add(string(e.Error))
		add(string(e.Phase))
		add(e.ID)
	}
	return h
}

// Bytes is the events as they are written: two runs of one seed must agree on
// every one.
func (o *Outcome) Bytes() []byte {
	var b []byte
	for i := range o.Events {
		b = history.AppendEvent(b, &o.Events[i])
	}
	return b
}
