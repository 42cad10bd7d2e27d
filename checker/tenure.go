package checker

import (
	"slices"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Tenure is one stay of one process as holder, with three readings of how long
// it lasted. Each uses, of every moment that the harness did not see, the end
// that favours the lock.
//
//   - Paper: what the service promised: from the return of the acquisition,
//     a granted lease after the send of each grant or renewal.
//   - Entitled: Paper up to the first thing that may have ended it (a release
//     was called, loss was signalled, the node was killed, a fault struck the
//     service). Two entitled holders are a broken lock, whatever else happened.
//   - Believed: as long as the process itself had reason to work on. Two
//     believers are what an application sees; a fault may be the cause.
//
// Counter-example to taking the asked lease as paper: a service that grants at
// most 1 s was asked for 2 s; taking 2 s accuses it of a correct takeover.
type Tenure struct {
	ID, Key, Process, Owner, Node string

	Mode    lockspec.Mode
	Count   int   // permits; at least 1
	Token   int64 // 0: none
	Session bool  // held by a session, no lease
	Lease   time.Duration

	Invoke, Return Moment // of the acquisition
	Paper          []Span
	Entitled       []Span
	Believed       Span

	PaperEnd Moment // the latest end that the paper may have had
	Cut      Cut    // what ended the entitlement before the paper did

	waited    bool // the acquisition was allowed to wait
	shared    bool // the acquisition did not refresh the lease, and did not tell what is left of it
	untold    bool // by an event that need not tell the lease
	late      bool // granted after the caller had given up: nobody believes in it
	sent      int64
	manual    bool // nobody renews by himself
	byHand    bool // so that nobody believes between two pieces of the paper
	renewals  []renewal
	releases  []call
	checks    []call // held, renew, write
	losses    []loss
	doubts    []Span // from doubt to sure; the last one may be open
	shutdown  Moment
	seesRenew bool // renewals of its own were seen
}

// Cut is why an entitlement ended before its paper.
type Cut struct {
	At    Moment
	Why   string // release, loss, kill, fault …; empty: the paper ran out
	Fault *Fault // where a fault on the service or the key did it
}

// call is one operation of a tenure.
type call struct {
	op            history.Op
	invoke, reply Moment // reply is never until it came
	outcome       lockspec.Outcome
	unknown       bool
}

func (c *call) refused() bool { return c.outcome == lockspec.Lost || c.outcome == lockspec.NotHeld }

// renewal is one that was asked for or one that the lock did by itself
// (invoke and reply are then both the moment its event arrived).
type renewal struct {
	invoke, reply Moment
	sent          int64
	lease         time.Duration // granted; asked where the outcome is unknown
	ok, own       bool
}

// loss is the signal that a tenure is over, raised somewhere between earliest
// and latest.
type loss struct{ earliest, latest Moment }

// mayEnd adds a reason that may have ended the entitlement, keeping the first.
func (t *Tenure) mayEnd(at Moment, why string, f *Fault) {
	if at.before(t.Cut.At) {
		t.Cut = Cut{At: at, Why: why, Fault: f}
	}
}

// ended is the first moment at which the tenure may have given the key up by
// itself, or was killed or broken: nothing on its paper binds anybody after it.
func (t *Tenure) ended(faults []*Fault) Moment {
	return t.endedBy(faults, func(l loss) Moment { return l.earliest })
}

// surelyEnded is the same with every loss at the latest moment it can have.
func (t *Tenure) surelyEnded(faults []*Fault) Moment {
	return t.endedBy(faults, func(l loss) Moment { return l.latest })
}

func (t *Tenure) endedBy(faults []*Fault, of func(loss) Moment) Moment {
	m := never
	for _, r := range t.releases {
		m = earlier(m, r.invoke)
	}
	for _, l := range t.losses {
		m = earlier(m, of(l))
	}
	for _, f := range faults {
		if f.killed(t) || f.breaks(t) {
			m = earlier(m, later(f.Start, t.Return))
		}
	}
	return m
}

// firstLoss is the earliest loss, or the start of a doubt that was never
// resolved; never if neither came.
func (t *Tenure) firstLoss() Moment {
	m := never
	if n := len(t.doubts); n > 0 && t.doubts[n-1].To == never {
		m = t.doubts[n-1].From
	}
	for _, l := range t.losses {
		m = earlier(m, l.earliest)
	}
	return m
}

// setPaper lays out what the service promised.
//
// A renewal may shorten a lease: from its invocation the earliest end is the
// smaller of the old end and its own, from its ok on its own alone. One whose
// outcome is unknown never lengthens. A piece after a gap is a piece of its
// own: the key may have been another's in between. A lease that a whole
// session shares and that the acquisition did not refresh is promised only by
// renewals that were seen: what was left of it at the grant nobody told.
func (t *Tenure) setPaper(faults []*Fault) {
	if t.Session {
		t.Paper = []Span{{t.Return, never}}
		t.PaperEnd = never
		return
	}
	end := at(t.grantSent()).plus(t.Lease)
	if t.shared {
		end = t.Return
	}
	from := t.Return
	t.PaperEnd = t.latestGrant(faults).plus(t.Lease)
	for _, s := range t.paperSteps(faults) {
		t.addPaper(Span{from, earlier(s.at, end)})
		from = s.at
		if s.end = at(s.sent).plus(s.lease); s.ok {
			end, t.PaperEnd = s.end, s.latest
		} else {
			end = earlier(end, s.end)
		}
	}
	for _, r := range t.renewals {
		if !r.ok || r.own && r.sent == 0 {
			t.PaperEnd = later(t.PaperEnd, r.reply.plus(r.lease)) // it may have landed as late as its reply
		}
	}
	t.addPaper(Span{from, end})
}

// paperStep is a moment at which the earliest end of a paper changes.
type paperStep struct {
	at, end Moment
	latest  Moment // end, if it was sent as late as can be
	sent    int64
	lease   time.Duration
	ok      bool
}

// paperSteps are the invocations and the ok replies of the renewals, in their
// order. A self-renewal of which nobody knows when it was sent entitles to
// nothing.
func (t *Tenure) paperSteps(faults []*Fault) []paperStep {
	var steps []paperStep
	for _, r := range t.renewals {
		if r.own && r.sent == 0 {
			continue
		}
		s := paperStep{at: r.invoke, sent: r.sent, lease: r.lease}
		if s.latest = at(s.sent); s.sent == 0 {
			s.sent, s.latest = r.invoke.Time, t.leftBy(r.invoke, r.reply, faults)
		}
		s.latest = s.latest.plus(r.lease)
		if !r.own {
			steps = append(steps, s)
		}
		if r.ok {
			s.at, s.ok = r.reply, true
			steps = append(steps, s)
		}
	}
	slices.SortStableFunc(steps, func(a, b paperStep) int { return order(a.at, b.at) })
	return steps
}

// paperEarliest is the earliest end that the paper may have had.
func (t *Tenure) paperEarliest() Moment {
	if len(t.Paper) == 0 {
		return t.Return
	}
	return t.Paper[len(t.Paper)-1].To
}

// addPaper appends a span, joining it to the last one where they touch.
func (t *Tenure) addPaper(s Span) {
	if s.empty() {
		return
	}
	if n := len(t.Paper); n > 0 && t.Paper[n-1].To == s.From {
		t.Paper[n-1].To = s.To
		return
	}
	t.Paper = append(t.Paper, s)
}

// grantSent is from when the granted lease surely counts.
func (t *Tenure) grantSent() int64 {
	if t.sent != 0 {
		return t.sent
	}
	return t.Invoke.Time
}

// latestGrant is the latest moment from which the granted lease may count: a
// wait may have been won by its last attempt.
func (t *Tenure) latestGrant(faults []*Fault) Moment {
	switch {
	case t.sent != 0:
		return at(t.sent)
	case t.waited:
		return at(t.Return.Time)
	}
	return at(t.leftBy(t.Invoke, t.Return, faults).Time)
}

// leftBy is the latest moment at which what was asked of the node can have left
// it: it goes on its way at once, unless the node was stopped.
//
// Counter-example to taking the invocation: a stopped node is asked for a key,
// asks the service 1.7 s later, when it runs again, and is granted it. Its lease
// would have been over before it began.
func (t *Tenure) leftBy(invoke, reply Moment, faults []*Fault) Moment {
	m := invoke
	for _, f := range faults {
		if f.Landed && f.stops(t.Node) && f.Start.before(reply) && m.before(f.End) {
			m = earlier(f.End, reply)
		}
	}
	return m
}

// setEntitled cuts the paper at the first thing that may have ended it.
func (t *Tenure) setEntitled(faults []*Fault, session bool) {
	for i := range t.releases {
		t.mayEnd(t.releases[i].invoke, "release", nil)
	}
	for i := range t.checks {
		if t.checks[i].refused() {
			t.mayEnd(t.checks[i].invoke, "answered "+string(t.checks[i].outcome), nil)
		}
	}
	for _, l := range t.losses {
		t.mayEnd(l.earliest, "loss", nil)
	}
	t.mayEnd(t.shutdown, "shutdown", nil)
	for _, f := range faults {
		switch {
		case f.killed(t):
			t.mayEnd(later(f.Start, t.Return), "kill", f)
		case f.takes(t, session || t.Session):
			t.mayEnd(later(f.Start, t.Return), f.Name, f)
		}
	}
	for _, s := range t.Paper {
		if s.To = earlier(s.To, t.Cut.At); !s.empty() {
			t.Entitled = append(t.Entitled, s)
		}
	}
}

// setBelieved finds how long the process had reason to work on. A write that
// is still open when the release is called keeps its belief until the reply: a
// check was passed and the application will write. A tenure whose acquisition
// used up its own lease is never believed, nor one that was granted after its
// caller had given up.
func (t *Tenure) setBelieved(faults []*Fault, autoRenew bool) {
	if t.late || t.spent() {
		t.Believed = Span{t.Return, t.Return}
		return
	}
	end := earlier(earlier(t.releaseBelieved(), t.firstLoss()), t.shutdown)
	for _, f := range faults {
		if f.killed(t) {
			end = earlier(end, later(f.Start, t.Return))
		}
	}
	if t.byHand = !t.Session && !t.shared && (!autoRenew || t.manual); t.byHand {
		end = earlier(end, t.believedPaper())
	}
	t.Believed = Span{t.Return, end}
}

// spent says whether the acquisition surely used up the lease.
func (t *Tenure) spent() bool {
	return !t.Session && !t.shared && (!t.waited || t.sent != 0) && !t.Return.before(at(t.grantSent()).plus(t.Lease))
}

func (t *Tenure) releaseBelieved() Moment {
	if len(t.releases) == 0 {
		return never
	}
	end := t.releases[0].invoke
	for i := range t.checks {
		c := &t.checks[i]
		if (c.op == history.Write || c.op == history.Section) && c.invoke.before(end) && end.before(c.reply) {
			end = c.reply
		}
	}
	return end
}

// believedPaper is where a process that renews by hand stops to believe. It
// counts from what it knows: the send of its request, or, of a wait, the
// return.
func (t *Tenure) believedPaper() Moment {
	if t.waited && t.sent == 0 && len(t.renewals) == 0 {
		return t.PaperEnd
	}
	return t.paperEarliest()
}

// unsure are the stretches in which the process had no reason to believe.
func (t *Tenure) unsure() []Span {
	gaps := t.doubts
	for i := 1; t.byHand && i < len(t.Paper); i++ {
		gaps = append(slices.Clone(gaps), Span{t.Paper[i-1].To, t.Paper[i].From})
	}
	slices.SortFunc(gaps, func(a, b Span) int { return order(a.From, b.From) })
	return gaps
}

// beliefs are the stretches of Believed in which the connection was not in
// doubt.
//
// Counter-example to letting the first doubt end the belief: ZooKeeper's
// client is suspended for 10 ms and sure again; its holder works on for an
// hour, and another that holds within that hour must be seen.
func (t *Tenure) beliefs() []Span {
	from := t.Believed.From
	var out []Span
	for _, d := range t.unsure() {
		if s := (Span{from, earlier(d.From, t.Believed.To)}); !s.empty() {
			out = append(out, s)
		}
		from = later(from, d.To)
	}
	if s := (Span{from, t.Believed.To}); !s.empty() {
		out = append(out, s)
	}
	return out
}
