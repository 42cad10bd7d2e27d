package driver

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// mustSection runs a section and gives the indexes of its lines.
func (w *wire) mustSection(q Request) (k *asked, entered, left int) {
	k = w.ask(q)
	r := w.mustReply(k)
	if r.Outcome == lockspec.Unsupported {
		w.a.gap("sections: it answers unsupported")
		w.a.stop()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	entered, left = -1, -1
	for i, s := range w.said {
		switch {
		case s.event == nil || s.event.Request != 0 && s.event.Request != k.ID:
		case s.event.Event == eventEntered && entered < 0:
			entered = i
		case s.event.Event == eventLeft && left < 0:
			left = i
		}
	}
	return k, entered, left
}

func trySection(a *attempt) {
	w := a.mustGreet("n1")
	const work = 200 * time.Millisecond
	k, entered, left := w.mustSection(Request{Op: opSection, Process: "p1", Key: a.newKey(), LeaseMS: Millis(a.calm), WorkMS: Millis(work)})
	a.tried()
	s := w.saidTo(k)
	switch {
	case s.reply.Outcome != lockspec.OK:
		a.gap("a whole section: %s", s.line)
		return
	case entered < 0 || left < 0 || k.replied < left || left < entered:
		a.broken(s.line, "write entered when the work begins, left when it ends, then the reply", "a section was answered without entered and left before its reply")
		return
	}
	w.mu.Lock()
	in, out := w.said[entered], w.said[left]
	w.mu.Unlock()
	switch took := s.at.Sub(k.sent); {
	case in.event.Lease == "" || in.event.Lease != out.event.Lease:
		a.broken(in.line, "let entered and left carry the lease id", "entered names lease %q, left %q", in.event.Lease, out.event.Lease)
	case took < work:
		a.broken(s.line, "work for work_ms between entered and left", "a section with %v of work was over after %v", work, took.Round(time.Millisecond))
	case s.reply.Token != in.event.Token && in.event.Token != 0:
		a.broken(s.line, "answer a section with the token of its tenure", "a section has token %d, entered said %d", s.reply.Token, in.event.Token)
	case s.reply.Token == 0 && a.claims(lockspec.Fencing):
		a.broken(s.line, "answer a section with the token of its tenure", "fencing is claimed, and a section has no token")
	}
}

// tryLostSection lets the lease of a section run out in its work. That it is
// lost is certain once another was granted the key meanwhile.
func tryLostSection(a *attempt) {
	a.mustClaim(lockspec.Renew, "a section that is lost, which needs a lease that nobody renews")
	w := a.mustGreet("n1")
	key := a.newKey()
	k := w.ask(Request{Op: opSection, Process: "p1", Key: key, LeaseMS: Millis(a.lease), WorkMS: Millis(3 * a.lease), Renew: lockspec.RenewManual})
	if r := w.await(k, 100*time.Millisecond); r != nil && r.Outcome == lockspec.Unsupported {
		a.gap("sections: it answers unsupported")
		return
	}
	if !a.takenFrom(w, k, key) {
		a.gap("a section that is lost: its lease did not end in its work")
		return
	}
	a.tried()
	if r := w.mustReply(k); r.Outcome == lockspec.OK {
		a.broken(w.saidTo(k).line, "answer lost where the lock was lost in the work", "a section was answered ok, and another had been granted its key while it worked")
	}
}

// takenFrom says whether another was granted the key of a section before its
// work was over.
func (a *attempt) takenFrom(w *wire, k *asked, key string) bool {
	over := func() bool {
		for _, s := range w.said {
			if s.event != nil && s.event.Event == eventLeft {
				return true
			}
		}
		return k.replied >= 0
	}
	for !w.pause(10*time.Millisecond, over) {
		other := w.try("p2", key)
		if r := w.mustReply(other); r.Outcome == lockspec.OK {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, s := range w.said[:other.replied] {
				if s.event != nil && s.event.Event == eventLeft {
					return false
				}
			}
			return k.replied < 0 || k.replied > other.replied
		}
	}
	return false
}
