package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

// ProcessOptions say how the nodes of Processes are started. Of Node, the name
// and the callbacks are set by Processes.
type ProcessOptions struct {
	Node  driver.Config
	Lease time.Duration               // that the cases will ask for: a stall is what is long against it
	Log   func(node string) io.Writer // of a node's stderr; nil: nowhere

	_ struct{}
}

// Processes is a harness whose nodes are drivers, each an operating-system
// process of its own. It starts them as they are asked for, and starts anew
// what was killed.
type Processes struct {
	o    ProcessOptions
	desc lockspec.Description

	mu     sync.Mutex
	places map[string]*place
	opened int

	told   sync.Mutex // what nodes tell
	rec    *history.Recorder
	broken []error
}

// place is where the node of a name runs. Whoever uses one node does not wait
// for another that starts: a driver may need a second for it.
type place struct {
	mu   sync.Mutex   // held while the node starts; its own goroutines never need it
	node *driver.Node // nil until it has started
}

// NewProcesses starts the first node, to learn what the lock claims. An error
// says why the driver is not usable.
func NewProcesses(ctx context.Context, o ProcessOptions) (*Processes, error) {
	p := &Processes{o: o, places: map[string]*place{}}
	n, err := p.Node(ctx, "n1")
	if err != nil {
		return nil, err
	}
	p.desc = n.Describe()
	return p, nil
}

// Describe implements Harness.
func (p *Processes) Describe() lockspec.Description { return p.desc }

// Open implements Harness.
func (p *Processes) Open(ctx context.Context, node string) (lockspec.Client, error) {
	n, err := p.Node(ctx, node)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened++
	return n.Client(fmt.Sprintf("c%d", p.opened)), nil
}

// Node implements NodeHost.
func (p *Processes) Node(ctx context.Context, name string) (*driver.Node, error) {
	at := p.place(name)
	at.mu.Lock()
	defer at.mu.Unlock()
	if n := at.node; n != nil {
		select {
		case <-n.Exited():
			return n, n.Restart(ctx)
		default:
			return n, nil
		}
	}
	n, err := driver.Start(ctx, p.config(name))
	if err != nil {
		return nil, err
	}
	at.node = n
	return n, nil
}

func (p *Processes) place(name string) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places[name] == nil {
		p.places[name] = &place{}
	}
	return p.places[name]
}

// running are the nodes that have been started.
func (p *Processes) running() (nodes []*driver.Node) {
	p.mu.Lock()
	places := slices.Collect(maps.Values(p.places))
	p.mu.Unlock()
	for _, at := range places {
		at.mu.Lock()
		if at.node != nil {
			nodes = append(nodes, at.node)
		}
		at.mu.Unlock()
	}
	return nodes
}

func (p *Processes) config(name string) driver.Config {
	c := p.o.Node
	c.Name = name
	c.PingEvery, c.StallOver, c.Settle = sampleEvery(p.o.Lease), p.o.Lease/10, p.o.Lease/10
	if p.o.Log != nil {
		c.Log = p.o.Log(name)
	}
	c.OnStall = func(from, to lockspec.Stamp) {
		p.record(func(rec *history.Recorder) { workload.RecordStall(rec, name, rec.At(from), rec.At(to)) })
	}
	c.OnExit = func(err error) {
		p.record(func(rec *history.Recorder) {
			rec.Record(&history.Event{Type: history.Happen, Op: history.Exit, Node: name, Reason: unasked, Message: fmt.Sprint(err)})
		})
	}
	c.OnLate = func(op, process, key string, o lockspec.Outcome, token int64) {
		p.record(func(rec *history.Recorder) {
			rec.Record(&history.Event{Type: history.Happen, Op: history.Note, Node: name, Key: key, Token: token,
				Message: fmt.Sprintf("late reply to %s of %s: %s", op, process, o)})
		})
	}
	c.OnBroken = func(err error) {
		p.told.Lock()
		defer p.told.Unlock()
		p.broken = append(p.broken, err)
	}
	c.OnNote = func(text string) {
		p.record(func(rec *history.Recorder) {
			rec.Record(&history.Event{Type: history.Happen, Op: history.Note, Node: name, Message: text})
		})
	}
	return c
}

// unasked is the reason of an exit that nobody asked for.
const unasked = "unasked"

func (p *Processes) record(with func(*history.Recorder)) {
	p.told.Lock()
	rec := p.rec
	p.told.Unlock()
	if rec != nil {
		with(rec)
	}
}

// Observe implements Observer.
func (p *Processes) Observe(rec *history.Recorder) {
	p.told.Lock()
	defer p.told.Unlock()
	p.rec = rec
}

// Settle implements Observer: a node that answers a ping has told everything
// that came before it.
func (p *Processes) Settle(ctx context.Context) {
	var all sync.WaitGroup
	for _, n := range p.running() {
		if !n.Paused() {
			all.Go(func() { _ = n.Ping(ctx, false) })
		}
	}
	all.Wait()
}

// Broken implements Observer.
func (p *Processes) Broken() []error {
	p.told.Lock()
	defer p.told.Unlock()
	broken := p.broken
	p.broken = nil
	return broken
}

// Close ends every node.
func (p *Processes) Close() error {
	var errs []error
	for _, n := range p.running() {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}
