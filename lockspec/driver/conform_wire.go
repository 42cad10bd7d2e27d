package driver

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
)

// wire speaks raw lines to one driver: a conn that may misbehave, and that
// takes what the other side does wrong down instead of mending it.
type wire struct {
	a       *attempt
	node    string
	process *process

	mu      sync.Mutex
	news    chan struct{} // closed and made anew at every line
	said    []said
	asked   map[int64]*asked
	leases  map[string]bool // that replies and events have named
	lastID  int64
	rubbish string // the last line that was neither reply nor event
	ending  bool   // its end was asked for
	over    chan struct{}
	endOnce sync.Once
}

// said is one line of the driver, in the order of the stream.
type said struct {
	line  string
	at    time.Time
	stamp lockspec.Stamp
	reply *Reply
	event *Event
}

// asked is a request that was sent.
type asked struct {
	Request
	line    string
	sent    time.Time
	stamp   lockspec.Stamp
	replied int // index in said of its reply; -1: none yet
}

func rawStamp() lockspec.Stamp {
	ns, _ := fakeclock.Monotonic()
	return lockspec.Stamp(ns)
}

// mustStart starts a driver.
func (a *attempt) mustStart(node string) *wire {
	w, err := a.start(node)
	if err != nil {
		a.gap("%v", err)
		a.stop()
	}
	return w
}

func (a *attempt) start(node string) (*wire, error) {
	p, err := startProcess(&a.config, a.config.Command)
	if err != nil {
		return nil, &Broken{Node: node, What: fmt.Sprintf("cannot start %q: %v", a.config.Command, err), Err: err}
	}
	w := &wire{a: a, node: node, process: p, news: make(chan struct{}), asked: map[int64]*asked{}, leases: map[string]bool{}, over: make(chan struct{})}
	a.wires = append(a.wires, w)
	go w.read()
	return w, nil
}

// mustGreet starts a driver and says hello to it. It has answered one before:
// that it does not now may be a busy machine's fault, unless it is so again.
func (a *attempt) mustGreet(node string) *wire {
	var greeted *wire
	a.thrice(func(int) func() {
		w := a.mustStart(node)
		k := w.hello(Version)
		if w.await(k, k.bound()) != nil {
			greeted = w
			return nil
		}
		return func() { w.blame(k) }
	})
	if greeted == nil {
		a.stop()
	}
	return greeted
}

func (a *attempt) endAll() {
	for _, w := range a.wires {
		w.end()
	}
}

// end kills the driver.
func (w *wire) end() {
	w.expectEnd()
	w.endOnce.Do(func() {
		_ = w.process.kill()
		select {
		case <-w.over:
		case <-time.After(drainLimit): // somebody outside of its group has it open
		}
		w.process.stdout.Close()
	})
}

func (w *wire) expectEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
}

func (w *wire) hello(version int) *asked {
	return w.ask(Request{Op: opHello, Versions: []int{version}, Node: w.node, Incarnation: 1, URL: w.a.config.URL, Endpoints: w.a.config.Endpoints})
}

// ask sends a request. A driver that does not read is found by what it does
// not answer. A session is asked for no lease: it would have to refuse one.
func (w *wire) ask(q Request) *asked {
	if w.a.says.Class == lockspec.Session {
		q.LeaseMS = 0
	}
	w.mu.Lock()
	w.lastID++
	q.ID = w.lastID
	line, _ := json.Marshal(q)
	k := &asked{Request: q, line: string(line), sent: time.Now(), stamp: rawStamp(), replied: -1}
	w.asked[q.ID] = k
	w.mu.Unlock()
	_ = w.process.stdin.SetWriteDeadline(time.Now().Add(callBound))
	_, _ = w.process.stdin.Write(append(line, '\n'))
	return k
}

// read takes the driver's lines to their end.
func (w *wire) read() {
	defer close(w.over)
	in := newLines(w.process.stdout)
	for {
		line, err := in.next()
		if err != nil {
			w.mu.Lock()
			unasked := !w.ending
			w.mu.Unlock()
			if unasked {
				w.died()
			}
			return
		}
		if !in.partial {
			w.take(string(line))
		}
	}
}

// died notes an end that nobody asked for.
func (w *wire) died() {
	select {
	case <-w.process.exited:
	case <-time.After(drainLimit):
		w.a.conformance.broken("f", "", "keep stdout open for as long as the process lives", "it closed its stdout and went on")
		return
	}
	w.mu.Lock()
	greeted := len(w.said) > 0
	w.mu.Unlock()
	if how := w.process.cmd.ProcessState.String(); greeted {
		w.a.conformance.broken("f", w.process.stderr.String(), "answer what fails with an outcome word; only shutdown, the end of stdin and a version that is not shared end a driver",
			"it ended unasked (%s); its stderr is quoted", how)
	}
}

// take notes a line, and what is wrong with it whatever is being tried.
func (w *wire) take(line string) {
	s := said{line: line, at: time.Now(), stamp: rawStamp()}
	var err error
	s.reply, s.event, err = decode([]byte(line))
	if err != nil {
		w.a.conformance.broken("c", line, "print to stderr, and write nothing but replies and events to stdout", "it wrote a line that the protocol does not know: %v", err)
		if s.reply == nil {
			w.mu.Lock()
			w.rubbish = line
			w.mu.Unlock()
			return
		}
		s.reply.Outcome = lockspec.Failed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, s)
	if s.event != nil {
		w.takeEvent(&s)
	} else {
		w.takeReply(&s)
	}
	close(w.news)
	w.news = make(chan struct{})
}

func (w *wire) takeReply(s *said) {
	r, k := s.reply, w.asked[s.reply.ID]
	once := "answer every request once, with its own id"
	switch {
	case k == nil:
		w.a.conformance.broken("a", s.line, once, "a reply to request %d, which was not sent", r.ID)
		return
	case k.replied >= 0:
		w.a.conformance.broken("a", s.line, once, "a second reply to %s", k.line)
		return
	case !r.Outcome.Known():
		w.a.conformance.broken("c", s.line, "use one of the outcome words", "%q is no outcome (reply to %s)", r.Outcome, k.Op)
	}
	k.replied = len(w.said) - 1
	if k.Op != opAcquire || r.Outcome != lockspec.OK {
		return
	}
	if r.Lease == "" {
		w.a.conformance.broken("hello", s.line, "name each tenure by an id in \"lease\"", "an acquire was answered ok without a lease id")
	} else if w.leases[r.Lease] {
		w.a.conformance.broken("h", s.line, "give each tenure an id that was never used before", "two tenures have the lease id %q", r.Lease)
	}
	w.leases[r.Lease] = true
	w.a.promised(s, k)
}

func (w *wire) takeEvent(s *said) {
	switch e := s.event; e.Event {
	case eventEntered:
		w.leases[e.Lease] = true
	case eventLost, eventRenewed, eventDoubt, eventSure, eventLeft:
		if !w.leases[e.Lease] {
			w.a.conformance.broken("b", s.line, "write the reply that grants a lease before any event of that lease", "an event of lease %q, which no line before it named", e.Lease)
		}
	default:
		w.a.conformance.broken("c", s.line, "write only the events of the protocol", "%q is no event", e.Event)
	}
}

// last is the last line that the driver wrote.
func (w *wire) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.said) == 0 {
		return w.rubbish
	}
	return w.said[len(w.said)-1].line
}

// until waits until cond holds of what was said, within the time; cond is
// called with the mutex held.
func (w *wire) until(within time.Duration, cond func() bool) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	over := w.over
	for {
		w.mu.Lock()
		holds, news := cond(), w.news
		w.mu.Unlock()
		if holds {
			return true
		}
		select {
		case <-news:
		case <-over:
			over = nil // look once more at what came last, and no longer
			timer.Reset(0)
		case <-timer.C:
			return false
		case <-w.a.ctx.Done():
			return false
		}
	}
}

// await is the reply, nil if there is none within the time.
func (w *wire) await(k *asked, within time.Duration) *Reply {
	if !w.until(within, func() bool { return k.replied >= 0 }) {
		return nil
	}
	return w.saidTo(k).reply
}

// saidTo is the line that answered a request.
func (w *wire) saidTo(k *asked) said {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said[k.replied]
}

// bound is how long a driver may take for a request, and some more for a busy
// machine.
func (k *asked) bound() time.Duration {
	if k.Op == opHello {
		return helloDefault // the start of the program is in it
	}
	return max(0, time.Duration(k.WaitMS)) + time.Duration(k.WorkMS) + callBound + time.Second
}

// mustReply is the reply to a request that has to come.
func (w *wire) mustReply(k *asked) *Reply {
	r := w.await(k, k.bound())
	if r == nil {
		w.blame(k)
		if r = w.await(k, 0); r == nil {
			w.a.stop()
		}
	}
	return r
}

// blame decides which rule a driver broke that did not answer in time.
func (w *wire) blame(k *asked) {
	if w.a.ctx.Err() != nil {
		w.a.gap("interrupted")
		return
	}
	select {
	case <-w.over:
		return // its end was noted
	default:
	}
	if w.alive() {
		if w.await(k, 0) != nil {
			return // it was slow, not wrong
		}
		w.a.conformance.broken("a", k.line, "answer every request, whatever becomes of it: a call is bounded by its wait and 5 s, and then unavailable",
			"no reply within %v to the request quoted", k.bound())
		return
	}
	w.a.conformance.broken("d", k.line, "read stdin in a thread of its own, and never wait in it for a call", "it stopped answering: no reply within %v to the request quoted, nor to a ping", k.bound())
}

// alive says whether a ping is answered. A busy machine gets the time it may
// need, unless this driver was seen to hang before.
func (w *wire) alive() bool {
	patience := helloDefault
	w.a.mu.Lock()
	if w.a.found["d"].Standing == RuleBroken {
		patience = time.Second
	}
	w.a.mu.Unlock()
	return w.await(w.ask(Request{Op: opPing}), patience) != nil
}

// grant is a tenure in a driver.
type grant struct {
	*wire
	process string
	key     string
	id      string
	request *asked
	reply   *Reply
}

// mustAcquire takes a key that is free, for so long that no stall of the
// machine matters.
func (w *wire) mustAcquire(process, key string) *grant {
	return w.mustGrant(Request{Process: process, Key: key, LeaseMS: Millis(w.a.calm)})
}

// mustLapse takes a key that is free with a lease that is to run out.
func (w *wire) mustLapse(process, key string) *grant {
	return w.mustGrant(Request{Process: process, Key: key, LeaseMS: Millis(w.a.lease), Renew: lockspec.RenewManual})
}

func (w *wire) mustGrant(q Request) *grant {
	q.Op = opAcquire
	k := w.ask(q)
	r := w.mustReply(k)
	if r.Outcome != lockspec.OK {
		w.a.gap("a free key was not granted: %s", w.saidTo(k).line)
		w.a.stop()
	}
	return &grant{w, q.Process, q.Key, r.Lease, k, r}
}

// try makes one attempt at a key.
func (w *wire) try(process, key string) *asked {
	return w.ask(Request{Op: opAcquire, Process: process, Key: key, LeaseMS: Millis(w.a.calm)})
}

// pause lets time pass, and less if cond, which may be nil, holds.
func (w *wire) pause(d time.Duration, cond func() bool) bool {
	return w.until(d, func() bool { return cond != nil && cond() })
}

// ask asks something about the tenure.
func (g *grant) ask(q Request) *asked {
	q.Process, q.Lease = g.process, g.id
	return g.wire.ask(q)
}

// lost is the index of the tenure's event lost; -1: none came. The mutex is held.
func (g *grant) lost() int {
	for i, s := range g.said {
		if s.event != nil && s.event.Event == eventLost && s.event.Lease == g.id {
			return i
		}
	}
	return -1
}
