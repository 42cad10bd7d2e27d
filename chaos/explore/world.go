package explore

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// World is one simulated run: nodes, the network between them and a service,
// and the faults that one seed decided. It lives in a synctest bubble, whose
// time is its time. It is safe for concurrent use.
//
// No two things of a world happen at one moment: every delay is drawn to the
// nanosecond and kept apart from those under way, and what one event sets free
// goes on one after the other. That is what makes a world repeat itself: the
// runtime orders what is due at the same time as it likes.
type World struct {
	Seed uint64

	began   time.Time
	service Service
	network network
	over    chan struct{} // closed when the world ends: every call returns

	mu    sync.Mutex
	rng   *rand.Rand      // of moments
	due   []time.Duration // moments of the world that were given and have not come
	doors []*gate         // of the servers; closed while one answers nobody
	nodes map[string]*Node
	all   []*Node        // of every life
	lives map[string]int // incarnations so far
	plan  *plan
	rec   recorder
	ended bool

	traffic []map[traffic]int // that reached each server; nil: nobody counts
	strikes []*interference
}

// recorder is where a world says what it does to the nodes.
type recorder interface {
	Record(*history.Event) int64
}

// newWorld begins a world at the bubble's present time.
func newWorld(seed uint64, p *plan) *World {
	return &World{Seed: seed, began: time.Now(), over: make(chan struct{}), network: p.network,
		rng: rand.New(rand.NewPCG(seed, 1)), nodes: map[string]*Node{}, lives: map[string]int{}, plan: p}
}

// Over is closed when the world ends: what a service has started must end then.
func (w *World) Over() <-chan struct{} { return w.over }

// now is how long the world has lasted.
func (w *World) now() time.Duration { return time.Since(w.began) }

// moment draws a time that nothing else happens to share.
func (w *World) moment(from, upto time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.apart(w.draw(from, upto))
}

// spaced is a time with an end that nothing else happens to share.
func (w *World) spaced(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.apart(d)
}

// apart gives a delay an end of its own, later where something else was given
// that moment: five answers of a quorum, each drawn among a million nanoseconds,
// met once in some thousand schedules. What is due now is no delay.
func (w *World) apart(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	now := w.now()
	w.due = slices.DeleteFunc(w.due, func(at time.Duration) bool { return at <= now })
	at := now + d
	for slices.Contains(w.due, at) {
		at++
	}
	w.due = append(w.due, at)
	return at - now
}

func (w *World) draw(from, upto time.Duration) time.Duration {
	return from + time.Duration(w.rng.Int64N(int64(upto-from)+1))
}

// Node is the machine of that name in its present life: the one it was last
// started in.
func (w *World) Node(name string) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.nodes[name]
	if n == nil || n.dead {
		w.lives[name]++
		n = newNode(w, name, w.lives[name])
		if w.ended {
			n.end()
		}
		w.nodes[name] = n
		w.all = append(w.all, n)
	}
	return n
}

// end makes every call return, now and later.
func (w *World) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		close(w.over)
		for _, n := range w.all {
			n.end()
			if n.view != nil {
				n.view.Resume() // what it waits for with its own timers must come
			}
		}
	}
}

// clock is the true time, as the harness's own clock shows it: the stamps of a
// node whose clock is proven are its readings.
type clock struct {
	fakeclock.Clock
	w *World
}

// Stamp implements fakeclock.Stamper. It is never 0, which would mean none.
func (c clock) Stamp() int64 { return int64(c.w.now()) + 1 }

// network is how fast messages travel, one way.
type network struct {
	least, most time.Duration
	slow        int           // one message of that many takes five times as long; 0: none
	late        time.Duration // but no longer than that
}

// within is the network in a world of such leases: a slow message takes at most
// a tenth of one, so that what a lock bears, a fourth, bears each exchange.
//
// Counter-example to leaving slow messages as slow as they are: an engine on a
// lease of 314 ms renewed twice in vain, because both answers took longer than
// the 71 ms that it gives a renewal before the next, and had 23 ms left for the
// third. It lost the lease, rightly, and nothing had struck it.
func (n network) within(lease time.Duration) network {
	n.late = min(slowly*n.most, lease/10)
	return n
}

// bounds are what a lock promises in a world so slow, which it does not know: it
// bears outages beside that, and hears of its loss when a renewal is answered.
//
// Counter-example to leaving its bound of loss alone: a restarted service answers
// a renewal whose request and whose reply are both slow, after 139 ms, where the
// engine allows its timers, which are exact here, 100.
func (n network) bounds(b lockspec.Bounds) lockspec.Bounds {
	b.Tolerates = max(0, b.Tolerates-n.slowest())
	if b.Loss > 0 {
		b.Loss = max(b.Loss, n.slowest()+2*pipeMost)
	}
	return b
}

// slowest is how long a request and its reply may take that nothing strikes.
func (n network) slowest() time.Duration {
	if n.slow > 0 {
		return 2 * max(n.most, n.late)
	}
	return 2 * n.most
}

// slowly is how many times as long a slow message takes.
const slowly = 5

func (w *World) delay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.draw(w.network.least, w.network.most)
	if w.network.slow > 0 && w.rng.IntN(w.network.slow) == 0 {
		d = max(d, min(d*slowly, w.network.late))
	}
	return w.apart(d)
}

// gate is a way that can be closed. What comes to a closed one waits, and goes
// on in the order of its coming, a little apart, once it is open.
type gate struct {
	w       *World
	closed  int // how many keep it closed
	waiting []chan struct{}
}

func (g *gate) shut() { g.closed++ }

func (g *gate) open() {
	if g.closed--; g.closed > 0 {
		return
	}
	after := time.Duration(0)
	for _, c := range g.waiting {
		after += g.w.draw(1, 10*time.Microsecond)
		after = g.w.apart(after)
		time.AfterFunc(after, func() { close(c) })
	}
	g.waiting = nil
}

// pass waits while the gate is closed; it is false where a channel was closed,
// or the world ended, before.
func (g *gate) pass(done, gone <-chan struct{}) bool {
	g.w.mu.Lock()
	if g.closed == 0 {
		g.w.mu.Unlock()
		return true
	}
	c := make(chan struct{})
	g.waiting = append(g.waiting, c)
	g.w.mu.Unlock()
	select {
	case <-c:
		return g.pass(done, gone) // it may have been closed again
	case <-done:
	case <-gone:
	case <-g.w.over:
	}
	return false
}
