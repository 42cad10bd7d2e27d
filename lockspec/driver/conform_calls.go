package driver

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// introduction looks at the reply to the first hello.
func (a *attempt) introduction(w *wire, k *asked, r *Reply) {
	line := w.saidTo(k).line
	a.tried()
	if r.Version != Version {
		a.broken(line, "answer the version that both speak", "it answered version %d to versions [%d]", r.Version, Version)
	}
	says, err := description(r)
	if err != nil {
		a.broken(line, "write permits:k, k being the capacity", "%v", err)
	}
	a.says = says
	if err := says.Validate(); err != nil {
		a.broken(line, "use the words of the protocol, and hazards that the class allows", "%v", err)
	}
	if r.Name == "" {
		a.broken(line, "say what is tested, with its version", "it says no name")
	}
	if r.MaxProcesses < 4 {
		a.broken(line, "serve at least 4 operations at once and say how many", "max_processes is %d", r.MaxProcesses)
	}
	if r.Clock != "" && r.Clock != clockMonotonic {
		a.broken(line, "say monotonic, or leave clock out", "the clock %q is none", r.Clock)
	}
	a.stamp(w, k, r.NowNS)
}

// stamp checks a reading of the shared clock against the harness's own.
func (a *attempt) stamp(w *wire, k *asked, stamp Nanos) {
	s := w.saidTo(k)
	if a.hello.Clock == clockMonotonic && s.stamp != 0 && (lockspec.Stamp(stamp) < k.stamp || lockspec.Stamp(stamp) > s.stamp) {
		a.broken(s.line, "read raw CLOCK_MONOTONIC in nanoseconds while the request is served, or leave clock out of hello",
			"now_ns is not within its request, %d to %d: its stamps will not be believed", k.stamp, s.stamp)
	}
}

func tryClaims(a *attempt) {
	w := a.mustGreet("n1")
	ping := w.ask(Request{Op: opPing})
	a.stamp(w, ping, w.mustReply(ping).NowNS)
	key := a.newKey()
	last := Token(0)
	for range 2 {
		g := w.mustAcquire("p1", key)
		line := w.saidTo(g.request).line
		switch {
		case !a.claims(lockspec.Fencing) && g.reply.Token != 0:
			a.broken(line, "claim fencing if these are fencing tokens, else leave them out", "a grant has a token, and fencing is not claimed")
		case a.claims(lockspec.Fencing) && g.reply.Token <= last:
			a.broken(line, "hand out the number that the lock service raises with each grant", "fencing is claimed, and a grant has token %d after %d", g.reply.Token, last)
		}
		last = g.reply.Token
		if r := w.mustReply(g.ask(Request{Op: opRelease})); r.Outcome != lockspec.OK {
			a.gap("a second grant: the first was not released, but %s", r.Outcome)
			return
		}
	}
}

func tryBurst(a *attempt) {
	const burst = 1000
	w := a.mustGreet("n1")
	a.tried()
	var all []*asked
	for range burst {
		all = append(all, w.ask(Request{Op: opPing}))
	}
	for _, k := range all {
		w.mustReply(k)
	}
	w.await(w.ask(Request{Op: opPing}), time.Second) // what comes twice has come by then
}

// tryLines has the driver do a little of everything: its lines are looked at as
// they come.
func tryLines(a *attempt) {
	w := a.mustGreet("n1")
	a.tried()
	g := w.mustAcquire("p1", a.newKey())
	for _, op := range []string{opHeld, opRenew, opWrite, opRelease} {
		w.mustReply(g.ask(Request{Op: op}))
	}
}

func tryShutdown(a *attempt) {
	for _, release := range []bool{true, false} {
		w := a.mustGreet("n1")
		key := a.newKey()
		g := w.mustAcquire("p1", key)
		other := a.mustGreet("n2")
		excluded := other.mustReply(other.try("p2", key)).Outcome == lockspec.Busy
		a.tried()
		w.expectEnd()
		k := w.ask(Request{Op: opShutdown, Release: release})
		if r := w.mustReply(k); r.Outcome != lockspec.OK {
			a.broken(w.saidTo(k).line, "answer ok once all is given back that can be", "shutdown was answered %s", r.Outcome)
		}
		select {
		case <-w.process.exited:
		case <-time.After(callBound):
			a.broken(k.line, "exit after the reply to shutdown", "it still runs %v after its reply to shutdown", callBound)
		}
		if !excluded {
			a.gap("whether shutdown gives back what is held: two drivers do not exclude each other (do they use one service?)")
			continue
		}
		again := other.try("p3", key)
		if r := other.mustReply(again); release && r.Outcome == lockspec.Busy {
			a.broken(k.line, "release every tenure when shutdown says \"release\":true", "what it held (lease %s) is still held after it had answered shutdown", g.id)
		}
	}
}

// exitBound is how long a driver may take to exit, at once on a machine that has
// nothing else to do.
const exitBound = 10 * time.Second

// tryEnd closes stdin under a driver that holds a key. What was held must still
// be: that is how a crash is played.
func tryEnd(a *attempt) {
	w := a.mustGreet("n1")
	key := a.newKey()
	g := w.mustAcquire("p1", key)
	if a.claims(lockspec.Wait) {
		w.ask(Request{Op: opAcquire, Process: "p2", Key: key, LeaseMS: Millis(a.calm), WaitMS: noLimit})
	}
	other := a.mustGreet("n2")
	excluded := other.mustReply(other.try("p3", key)).Outcome == lockspec.Busy
	a.tried()
	w.expectEnd()
	_ = w.process.stdin.Close()
	select {
	case <-w.process.exited:
	case <-time.After(exitBound):
		a.broken("", "exit as soon as a read of stdin says that it is at its end", "it still runs %v after the end of its stdin", exitBound)
		return
	}
	if !excluded {
		a.gap("whether it releases: two drivers do not exclude each other (do they use one service?)")
		return
	}
	k := other.try("p4", key)
	r := other.mustReply(k)
	left := time.Duration(g.reply.LeaseMS) - time.Since(g.request.sent)
	if r.Outcome == lockspec.OK && left > 0 {
		a.broken(other.saidTo(k).line, "leave without a word to the service", "what it held was free %v before its lease was over: it was released", left.Round(time.Millisecond))
	}
}

func tryUnknown(a *attempt) {
	w := a.mustGreet("n1")
	a.tried()
	for _, try := range []struct {
		q     Request
		right lockspec.Outcome
	}{
		{Request{Op: "sing", Process: "p1"}, lockspec.Unsupported},
		{Request{Op: opHeld, Process: "p1", Lease: "no such lease"}, lockspec.NotHeld},
		{Request{Op: opRenew, Process: "p1", Lease: "no such lease"}, lockspec.NotHeld},
		{Request{Op: opWrite, Process: "p1", Lease: "no such lease"}, lockspec.NotHeld},
		{Request{Op: opRelease, Process: "p1", Lease: "no such lease"}, lockspec.NotHeld},
		{Request{Op: opCancel, Target: 4711}, lockspec.OK},
	} {
		k := w.ask(try.q)
		r := w.mustReply(k)
		if try.q.Op == opHeld && r.Outcome == lockspec.Unsupported && !a.conformance.claims(lockspec.HoldCheck) {
			continue // rule l: without hold-check, held may be unsupported
		}
		if r.Outcome != try.right {
			a.broken(k.line, "answer unsupported to an unknown op, not-held to an unknown lease id, ok to every cancel", "it answered %s to the request quoted; right is %s", r.Outcome, try.right)
		}
	}
}

func tryCancel(a *attempt) {
	a.mustClaim(lockspec.Wait, "cancel of an open wait")
	w := a.mustGreet("n1")
	key := a.newKey()
	g := w.mustAcquire("p1", key)
	wait := w.ask(Request{Op: opAcquire, Process: "p2", Key: key, LeaseMS: Millis(a.calm), WaitMS: noLimit})
	w.await(wait, 100*time.Millisecond)
	a.tried()
	k := w.ask(Request{Op: opCancel, Target: wait.ID})
	if r := w.mustReply(k); r.Outcome != lockspec.OK {
		a.broken(k.line, "answer ok to every cancel", "it answered %s to a cancel", r.Outcome)
	}
	if !a.claims(lockspec.Cancel) {
		a.gap("whether cancel ends a wait: cancel is not claimed")
	} else if w.await(wait, max(a.says.Bounds.Cancel, cancelDefault)+callBound) == nil {
		a.broken(wait.line, "end the wait that cancel names, and let its own reply say how", "a wait was cancelled and is still open, and cancel is claimed")
	}
	w.mustReply(g.ask(Request{Op: opRelease}))
}

// tryVersion says hello in a version that nobody speaks.
func tryVersion(a *attempt) {
	a.tried()
	a.thrice(func(int) func() {
		w := a.mustStart("n1")
		w.expectEnd()
		k := w.hello(99)
		what := ""
		if r := w.await(k, k.bound()); r == nil || r.Outcome != lockspec.Unsupported {
			what = "hello with versions [99] was not answered unsupported"
		} else {
			what = w.exitedWith(exitUsage)
		}
		if what == "" {
			return nil
		}
		return func() {
			a.broken(k.line, "answer unsupported where no version is shared, then exit with 64", "%s", what)
		}
	})
}

// exitedWith says what is wrong with the end of a driver.
func (w *wire) exitedWith(right int) string {
	select {
	case <-w.process.exited:
	case <-time.After(callBound):
		return fmt.Sprintf("no version was shared, and it still runs after %v", callBound)
	}
	if code := w.process.cmd.ProcessState.ExitCode(); code != right {
		return fmt.Sprintf("no version was shared, and it exited with %d", code)
	}
	return ""
}

// mustNetwork ends the attempt unless the driver can be sent to another service.
func (a *attempt) mustNetwork(what string) {
	if len(a.config.Endpoints) == 0 || a.config.URL != "" {
		a.gap("%s: no --endpoint", what)
		a.stop()
	}
}

// tryAway sends the driver to a service that is not there.
func tryAway(a *attempt) {
	a.mustNetwork("a service that is away")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.gap("a service that is away: %v", err)
		return
	}
	l.Close()
	w := a.sentTo(l.Addr().String())
	w.firstAcquire(lockspec.Unavailable)
}

// trySilence sends the driver to a service that takes connections and never
// says anything.
func trySilence(a *attempt) {
	a.mustNetwork("a service that never answers")
	var c net.ListenConfig
	l, err := c.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		a.gap("a service that never answers: %v", err)
		return
	}
	defer l.Close()
	w := a.sentTo(l.Addr().String())
	w.firstAcquire(lockspec.Unavailable)
}

// sentTo starts a driver whose hello names that endpoint only.
func (a *attempt) sentTo(endpoint string) *wire {
	w := a.mustStart("n1")
	a.tried()
	k := w.ask(Request{Op: opHello, Versions: []int{Version}, Node: "n1", Incarnation: 1, Endpoints: []string{endpoint}})
	r := w.await(k, k.bound())
	switch {
	case r == nil:
		a.conformance.broken("j", k.line, "connect when the first acquire needs it", "hello waits for a service that does not answer")
		a.stop()
	case r.Outcome != lockspec.OK:
		a.conformance.broken("j", w.saidTo(k).line, "answer hello ok without asking the service", "hello was answered %s because the service is away", r.Outcome)
		a.stop()
	}
	return w
}

func (w *wire) firstAcquire(right lockspec.Outcome) {
	k := w.ask(Request{Op: opAcquire, Process: "p1", Key: w.a.newKey(), LeaseMS: Millis(w.a.calm)})
	r := w.await(k, k.bound())
	switch {
	case r == nil && w.alive() && w.await(k, 0) == nil:
		w.a.conformance.broken("g", k.line, "bound every call by its wait and 5 s, and answer unavailable", "an acquire on a service that does not answer is still open after %v", k.bound())
	case r == nil:
		w.mustReply(k)
	case r.Outcome == lockspec.OK:
		w.a.conformance.broken("j", w.saidTo(k).line, "use the endpoints that hello names: they win over everything else", "it was granted a key although hello named an endpoint where nobody answers")
	case r.Outcome != right:
		w.a.conformance.broken("j", w.saidTo(k).line, "answer unavailable where the service gave no answer", "the first acquire without a service was answered %s; right is %s", r.Outcome, right)
	}
}

// tryHuge sends a request of a megabyte. Whatever it is answered, it is read.
func tryHuge(a *attempt) {
	w := a.mustGreet("n1")
	a.tried()
	k := w.ask(Request{Op: opAcquire, Process: "p1", Key: strings.Repeat("k", 1<<20), LeaseMS: Millis(a.calm)})
	w.await(k, helloDefault) // a busy machine takes long for so much text, and the rule is not about that
	w.mustReply(k)
	w.mustReply(w.ask(Request{Op: opPing}))
}
