// Package load makes histories of a busy lock of any length, an event at a
// time, for benchmarks.
package load

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Options say what a load looks like.
type Options struct {
	Clients int
	Keys    int  // on which the clients take turns
	Fresh   bool // every tenure takes a key of its own
	Unknown bool // one acquisition in a hundred is never answered
	Overlap int  // after so many events one grant comes too soon; 0: never

	_ struct{}
}

// Load is a history that goes on for ever.
type Load struct {
	o       Options
	rng     *rand.Rand
	clients []*client
	keys    []key
	index   int64
	token   int64
	names   int
	wrong   bool // an overlap is due
}

type client struct {
	name, owner, node, tenure, key string
	n, at                          int // number; key
	open                           history.Op
	token                          int64
}

type key struct {
	name   string
	holder *client
}

const lease = 10 * time.Second

// New starts a load.
func New(o Options) *Load {
	l := &Load{o: o, rng: rand.New(rand.NewPCG(1, 2))}
	for n := range o.Clients {
		c := &client{n: n, owner: fmt.Sprintf("o%d", n), node: fmt.Sprintf("n%d", n)}
		l.rename(c)
		l.clients = append(l.clients, c)
	}
	for n := range max(1, o.Keys) {
		l.keys = append(l.keys, key{name: fmt.Sprintf("orders/%06d", n)})
	}
	return l
}

func (l *Load) rename(c *client) {
	l.names++
	c.name = fmt.Sprintf("p%d", l.names)
}

// Next makes the next event.
func (l *Load) Next(e *history.Event) {
	if l.o.Overlap != 0 && l.index == int64(l.o.Overlap) {
		l.wrong = true
	}
	c := l.clients[l.rng.IntN(len(l.clients))]
	*e = history.Event{Index: l.index, Time: l.index * 1000, Process: c.name, Owner: c.owner, Node: c.node}
	l.index++
	switch {
	case c.open == "" && c.tenure == "":
		l.ask(c, e)
	case c.open == history.Acquire:
		l.answer(c, e)
	case c.open == "":
		e.Type, e.Op, e.Key, e.Tenure, c.open = history.Invoke, history.Release, c.key, c.tenure, history.Release
	default:
		e.Type, e.Op, e.Key, e.Tenure = history.OK, history.Release, c.key, c.tenure
		if k := &l.keys[c.at]; k.holder == c {
			k.holder = nil
		}
		c.open, c.tenure = "", ""
	}
}

func (l *Load) ask(c *client, e *history.Event) {
	c.at = l.rng.IntN(len(l.keys))
	c.key = l.keys[c.at].name
	if l.o.Fresh {
		c.at = 0
		c.key = fmt.Sprintf("orders/%09d", l.index)
	}
	e.Type, e.Op, e.Key, e.Ask, c.open = history.Invoke, history.Acquire, c.key, lease, history.Acquire
}

func (l *Load) answer(c *client, e *history.Event) {
	k := &l.keys[c.at]
	e.Op, e.Key, c.open = history.Acquire, c.key, ""
	switch {
	case l.o.Unknown && l.rng.IntN(100) == 0:
		e.Type, e.Error = history.Info, lockspec.Unavailable
		l.rename(c)
	case k.holder != nil && !l.o.Fresh && !l.overlaps(k):
		e.Type, e.Error = history.Fail, lockspec.Busy
	default:
		l.wrong = l.wrong && k.holder == nil
		l.token++
		c.token, c.tenure = l.token, fmt.Sprintf("t%d", l.token)
		k.holder = c
		e.Type, e.Tenure, e.Token, e.Lease = history.OK, c.tenure, c.token, lease
	}
}

// overlaps says whether it is time for a grant that comes too soon, while
// another surely holds.
func (l *Load) overlaps(k *key) bool { return l.wrong && k.holder.open == "" && k.holder.tenure != "" }
