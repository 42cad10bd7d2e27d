package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Config says how a node is started and who is told what. The functions are
// called from the node's own goroutines, in the order of what the driver wrote,
// and so must not block nor call the node.
type Config struct {
	Name    string   // of the node
	Command []string // of the driver; empty: this program, which must call Main
	Env     []string // beside the environment of this process
	Dir     string   // empty: that of this process

	URL       string   // of the lock service
	Endpoints []string // host:port of it

	Guard *Guard
	Log   io.Writer // gets the driver's stderr, whole lines; one write at a time

	HelloLimit time.Duration // for start and hello; 0: 10 s
	PingEvery  time.Duration // 0: 50 ms; negative: never
	StallOver  time.Duration // a ping that takes longer is a stall; 0: none is reported
	Settle     time.Duration // no stall is reported until this long after a resume

	// OnStall is told of a stall: from the last sign of life before it to the
	// next. Where the machine has no shared clock only their difference means
	// anything. Stalls inside an injected pause or kill are not reported.
	OnStall func(from, to lockspec.Stamp)
	// OnExit is told that the driver ended unasked.
	OnExit func(err error)
	// OnLate is told of a reply whose caller had given up and did not ask to be
	// told itself (lockspec.WithLate), and of the reply to the release of what a
	// late acquisition had granted then.
	OnLate func(op, process, key string, outcome lockspec.Outcome, token int64)
	// OnBroken is told of every violation of the protocol, a *Broken.
	OnBroken func(err error)
	// OnNote is told what a reader of the history should know.
	OnNote func(text string)

	_ struct{}
}

// Broken says that a driver cannot be used, or broke the protocol. It says
// nothing about the lock.
type Broken struct {
	Node string
	What string // and what to do
	Err  error  // may be nil

	rubbish bool // it quotes what the driver wrote
}

func (b *Broken) Error() string { return fmt.Sprintf("driver of node %s: %s", b.Node, b.What) }
func (b *Broken) Unwrap() error { return b.Err }

// Node is one operating-system process that lives in a lock service's clients'
// place: it can be paused, killed and started again. Its methods are safe for
// concurrent use; those that start and end the process wait for each other.
type Node struct {
	config Config
	began  time.Time // base of stamps where there is no shared clock
	clock  clock
	quiet  quiet

	life sync.Mutex // held by what starts, stops and ends the process

	mu          sync.Mutex
	process     *process
	conn        *conn
	says        lockspec.Description
	most        int
	incarnation int
	greeted     bool // of this incarnation
	paused      bool
	closed      bool
	broken      error // first violation
	readers     sync.WaitGroup
}

const (
	helloDefault = 10 * time.Second
	pingDefault  = 50 * time.Millisecond
)

var (
	errKilled = errors.New("it was killed on purpose")
	errClosed = errors.New("the node is closed")
)

// Start starts a driver and says hello to it. An error is a *Broken that quotes
// what the driver wrote instead; ctx bounds the start only.
func Start(ctx context.Context, config Config) (*Node, error) {
	command, err := orSelf(config.Command)
	if err != nil {
		return nil, &Broken{Node: config.Name, What: "no command: " + err.Error(), Err: err}
	}
	config.Command = command
	n := &Node{config: config, began: time.Now()}
	n.life.Lock()
	defer n.life.Unlock()
	if err := n.launch(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

// launch starts the next incarnation. life is held.
func (n *Node) launch(ctx context.Context) error {
	p, err := startProcess(&n.config, n.config.Command)
	if err != nil {
		return &Broken{Node: n.config.Name, What: fmt.Sprintf("cannot start %q: %v", n.config.Command, err), Err: err}
	}
	c := newConn(n, p.stdin)
	n.mu.Lock()
	n.process, n.conn = p, c
	n.incarnation++
	n.greeted, n.paused = false, false
	n.mu.Unlock()
	n.readers.Add(3)
	go func() { defer n.readers.Done(); c.write() }()
	go func() { defer n.readers.Done(); c.read(p.stdout); p.deaf() }()
	go func() { defer n.readers.Done(); n.await(p, c) }()
	if err := n.greet(ctx, c); err != nil {
		return n.useless(p, c, err)
	}
	if n.config.PingEvery >= 0 {
		n.readers.Add(1)
		go func() { defer n.readers.Done(); n.pinging(c) }()
	}
	return nil
}

// greet says hello.
func (n *Node) greet(ctx context.Context, c *conn) error {
	limit := n.config.HelloLimit
	if limit <= 0 {
		limit = helloDefault
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	k, err := c.send(Request{
		Op: opHello, Versions: []int{Version}, Node: n.config.Name, Incarnation: n.Incarnation(),
		URL: n.config.URL, Endpoints: n.config.Endpoints,
	})
	if err != nil {
		return err
	}
	got, err := c.await(ctx, k)
	switch {
	case ctx.Err() != nil && err != nil:
		return fmt.Errorf("no reply to hello within %v; a driver answers it without waiting for its service", limit)
	case err != nil:
		return err
	case got.Version != Version:
		return fmt.Errorf("it speaks version %d of the protocol; want %d", got.Version, Version)
	}
	says, err := description(&got.Reply)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.says, n.most, n.greeted, n.process.greeted = says, got.MaxProcesses, true, true
	n.mu.Unlock()
	n.clock.hello(n, k.sent, &got)
	return nil
}

// useless ends a driver that did not get through hello, and says why.
func (n *Node) useless(p *process, c *conn, err error) error {
	n.expect()
	killed := p.kill()
	c.fail(err)
	if killed == nil {
		n.readers.Wait()
	}
	b := &Broken{Node: n.config.Name, What: err.Error(), Err: err}
	if found := (*Broken)(nil); errors.As(err, &found) {
		b.What, b.rubbish = found.What, found.rubbish
	}
	if !b.rubbish && killed == nil {
		b.What += fmt.Sprintf(" (%v)", p.cmd.ProcessState)
	}
	if log := p.stderr.String(); log != "" {
		b.What += "; its stderr ends: " + log
	}
	return b
}

// goneBy is the error of calls that a driver leaves open.
func (n *Node) goneBy(why error) error {
	if b := (*Broken)(nil); errors.As(why, &b) {
		return b
	}
	return &Broken{Node: n.config.Name, What: "the driver is gone: " + why.Error(), Err: why}
}

// await waits for the end of the process and tells of one that nobody asked for.
func (n *Node) await(p *process, c *conn) {
	defer close(p.told)
	<-p.exited
	select {
	case <-c.done: // all that it wrote was read
	case <-time.After(drainLimit):
		p.stdout.Close()
		<-c.done
	}
	n.mu.Lock()
	unasked := p.greeted && !p.asked
	n.mu.Unlock()
	if unasked && n.config.OnExit != nil {
		n.config.OnExit(n.exit(p))
	}
}

func (n *Node) exit(p *process) error {
	how := p.cmd.ProcessState.String()
	if log := p.stderr.String(); log != "" {
		how += "; its stderr ends: " + log
	}
	return &Broken{Node: n.config.Name, What: "it ended unasked: " + how}
}

// broke notes a violation of the protocol. Before hello was answered it is the
// end of the driver.
func (n *Node) broke(c *conn, what string) error {
	b := &Broken{Node: n.config.Name, What: "it wrote " + what, rubbish: true}
	n.mu.Lock()
	if n.broken == nil {
		n.broken = b
	}
	greeted := n.greeted
	n.mu.Unlock()
	if n.config.OnBroken != nil {
		n.config.OnBroken(b)
	}
	if !greeted {
		c.fail(b)
	}
	return b
}

func (n *Node) late(q Request, got reply) {
	if n.config.OnLate != nil {
		n.config.OnLate(q.Op, q.Process, q.acquisition().Key, got.Outcome, int64(got.Token))
	}
}

func (n *Node) note(format string, args ...any) {
	if n.config.OnNote != nil {
		n.config.OnNote(fmt.Sprintf("node %s: %s", n.config.Name, fmt.Sprintf(format, args...)))
	}
}

// stamp reads the clock of the harness.
func (n *Node) stamp() lockspec.Stamp {
	if ns, ok := fakeclock.Monotonic(); ok {
		return lockspec.Stamp(ns)
	}
	return lockspec.Stamp(time.Since(n.began))
}

// current is the connection to the incarnation that runs, or ran last.
func (n *Node) current() *conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.conn
}
