package explore

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Node is one life of a simulated machine. The lock under test gets its time
// and its way to the service from it, and from nowhere else.
type Node struct {
	Name string

	w      *World
	life   int
	number int // in the plan
	clock  fakeclock.Clock
	view   *fakeclock.View // nil where nothing will strike its time
	mortal bool            // it may be killed
	gone   chan struct{}   // closed when it is killed, or the world ends
	runs   gate            // closed while it is stopped

	ended  atomic.Bool  // gone is closed
	queues atomic.Int32 // waits that are open

	// Under the world's mutex.
	dead      bool          // killed
	out       time.Duration // when the last of what it told the harness arrives
	leases    []*lease      // that it may still have something to tell of
	links     []*link       // to each server
	next      []*fate       // of its next messages
	calls     map[int]context.CancelFunc
	opened    int
	suspended int // by how many faults
	sources   uint64
}

// link is the way between a node and a server.
type link struct{ out, in gate }

func newNode(w *World, name string, life int) *Node {
	n := &Node{Name: name, w: w, life: life, gone: make(chan struct{}), runs: gate{w: w}}
	n.number, _ = strconv.Atoi(strings.TrimPrefix(name, "n"))
	n.number--
	n.clock = clock{fakeclock.Real(), w}
	n.mortal = w.plan.strikes(name, "kill")
	if n.mortal || w.plan.strikes(name, "pause", "suspend", "client-clock") {
		n.view = fakeclock.NewView(n.clock)
		n.clock = n.view
	}
	for range w.service.Servers() {
		n.links = append(n.links, &link{gate{w: w}, gate{w: w}})
	}
	return n
}

// end makes every call return.
func (n *Node) end() {
	if !n.ended.Swap(true) {
		close(n.gone)
	}
}

// Clock is the node's clock, which can run wrong and stop.
func (n *Node) Clock() fakeclock.Clock { return n.clock }

// Rand is a new source for the lock under test, another one at each call: the
// same seed draws the same again, and no two clients are one owner.
func (n *Node) Rand() rand.Source {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.sources++
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d/%d", n.Name, n.life, n.sources)
	return rand.NewPCG(n.w.Seed, h.Sum64())
}

// World is where the node is.
func (n *Node) World() *World { return n.w }

// kill ends the node. What it has sent travels on.
func (n *Node) kill() {
	if n.dead {
		return
	}
	n.dead = true
	n.end()
	for _, id := range slices.Sorted(maps.Keys(n.calls)) {
		n.calls[id]()
	}
	if n.view != nil {
		n.view.Resume() // what waits in the dead process for its own time must end: the harness waits for it
	}
}

// errDied is what the harness hears of a call whose node ended.
var errDied = errUnavailable("the node was killed")

type errUnavailable string

func (e errUnavailable) Error() string        { return string(e) }
func (e errUnavailable) Is(target error) bool { return target == lockspec.ErrUnavailable }

// ErrNotSent is the error of a call whose context had ended before anything was
// sent.
const ErrNotSent = errUnavailable("nothing was sent")

// ErrReset is the error of a call whose connection broke: nobody knows whether
// the request arrived.
const ErrReset = errUnavailable("connection reset")
