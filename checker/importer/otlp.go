package importer

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// SpanNames are the names of the spans and attributes that matter. Empty ones
// stand for lock.acquire, lock.hold, lock.release, lock.renew, lock.key,
// lock.owner, lock.token, lock.lease_ms and lock.outcome.
type SpanNames struct {
	Acquire, Hold, Release, Renew           string
	Key, Owner, Token, LeaseMS, OutcomeWord string

	_ struct{}
}

func (n SpanNames) withDefaults() SpanNames {
	for _, d := range []struct {
		name  *string
		usual string
	}{
		{&n.Acquire, "lock.acquire"}, {&n.Hold, "lock.hold"}, {&n.Release, "lock.release"}, {&n.Renew, "lock.renew"},
		{&n.Key, "lock.key"}, {&n.Owner, "lock.owner"}, {&n.Token, "lock.token"}, {&n.LeaseMS, "lock.lease_ms"}, {&n.OutcomeWord, "lock.outcome"},
	} {
		if *d.name == "" {
			*d.name = d.usual
		}
	}
	return n
}

// The part of OTLP JSON that is read.
type (
	traces struct {
		ResourceSpans []struct {
			Resource   struct{ Attributes []attribute }
			ScopeSpans []struct{ Spans []span }
		}
	}
	span struct {
		TraceID, SpanID, ParentSpanID, Name string
		Start                               json.Number `json:"startTimeUnixNano"`
		End                                 json.Number `json:"endTimeUnixNano"`
		Attributes                          []attribute
		Status                              struct{ Code any }
	}
	attribute struct {
		Key   string
		Value struct {
			StringValue *string
			IntValue    *json.Number
			DoubleValue *float64
		}
	}
)

func (a attribute) text() string {
	switch {
	case a.Value.StringValue != nil:
		return *a.Value.StringValue
	case a.Value.IntValue != nil:
		return a.Value.IntValue.String()
	case a.Value.DoubleValue != nil:
		return strconv.FormatFloat(*a.Value.DoubleValue, 'f', -1, 64)
	}
	return ""
}

// readOTLP reads traces, one object or one a line. A span of an acquisition is
// an acquisition, of a release a release. A span of a hold is a tenure: it ends
// what the acquisition before it began, or stands for the acquisition, too,
// which was then answered when the span began. The owner is its attribute, or
// the resource's service.instance.id, or the trace.
//
// Counter-example to taking clocks at their word: two machines whose clocks
// differ by 3 ms hand a lock over within 1 ms; their spans overlap, and the lock
// is right. So every stamp is widened by the clock error, and a hold that is
// shorter than twice that is held by nobody for certain.
func readOTLP(r io.Reader, o Options) (*history.History, error) {
	src, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	t := &tracer{o: o}
	err = eachJSON(src, func(raw json.RawMessage, at int64) error {
		var ts traces
		if err := json.Unmarshal(raw, &ts); err != nil {
			return err
		}
		t.line, t.byte = lineOf(src, at), at
		return t.add(ts)
	})
	if err != nil {
		return nil, err
	}
	if len(t.spans) == 0 {
		return nil, &history.SyntaxError{Line: 1, Problem: fmt.Sprintf("no span is named %s, %s or %s", o.Spans.Acquire, o.Spans.Hold, o.Spans.Release)}
	}
	calls, vague := t.calls()
	h, err := build(calls, o)
	if err == nil && vague > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%d holds are shorter than the clock error: nobody holds them for certain", vague))
	}
	return h, err
}

// lockSpan is a span that matters.
type lockSpan struct {
	call
	hold bool
}

type tracer struct {
	o     Options
	spans []*lockSpan
	line  int
	byte  int64
}

func (t *tracer) add(ts traces) error {
	for _, rs := range ts.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				if err := t.span(s, rs.Resource.Attributes); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (t *tracer) span(s span, resource []attribute) error {
	n := t.o.Spans
	l := &lockSpan{call: call{owner: s.TraceID, key: t.o.Key, answered: true, outcome: lockspec.OK, line: t.line, byte: t.byte}}
	switch s.Name {
	case n.Acquire, n.Hold:
		l.op, l.hold = history.Acquire, s.Name == n.Hold
	case n.Release:
		l.op = history.Release
	case n.Renew:
		l.op = history.Renew
	default:
		return nil
	}
	for _, a := range resource {
		switch a.Key {
		case "service.instance.id":
			l.owner, l.node = a.text(), a.text()
		case "host.name":
			l.node = a.text()
		}
	}
	if s.Status.Code == float64(2) || s.Status.Code == "STATUS_CODE_ERROR" {
		l.outcome = lockspec.Unavailable
	}
	for _, a := range s.Attributes {
		if err := l.attribute(n, a); err != nil {
			return fmt.Errorf("span %s: %w", s.SpanID, err)
		}
	}
	from, err1 := s.Start.Int64()
	to, err2 := s.End.Int64()
	switch {
	case err1 != nil || err2 != nil:
		return fmt.Errorf("span %s: startTimeUnixNano %q, endTimeUnixNano %q: no times", s.SpanID, s.Start, s.End)
	case to < from:
		return fmt.Errorf("span %s ends at %d, before it starts at %d", s.SpanID, to, from)
	}
	l.from, l.to = stamp{from, from}, stamp{to, to}
	t.spans = append(t.spans, l)
	return nil
}

func (l *lockSpan) attribute(n SpanNames, a attribute) error {
	var err error
	switch a.Key {
	case n.Key:
		l.key = a.text()
	case n.Owner:
		l.owner = a.text()
	case n.Token:
		if l.token, err = strconv.ParseInt(a.text(), 10, 64); err != nil {
			return fmt.Errorf("%s %q is no number", a.Key, a.text())
		}
	case n.LeaseMS:
		ms, err := strconv.ParseFloat(a.text(), 64)
		if err != nil {
			return fmt.Errorf("%s %q is no number", a.Key, a.text())
		}
		l.lease = time.Duration(ms * float64(time.Millisecond))
	case n.OutcomeWord:
		if l.outcome = lockspec.Outcome(a.text()); !l.outcome.Known() {
			return fmt.Errorf("unknown outcome %q", l.outcome)
		}
	}
	return nil
}

// stay is one tenure as its spans tell it.
type stay struct {
	acquire, release *lockSpan
	renewals         []*lockSpan
	hold             *lockSpan
}

// calls pairs the spans of each owner and key, widens them, and gives tenures
// of one owner that are at once processes of their own.
func (t *tracer) calls() (calls []call, vague int) {
	lanes := map[string][]int64{} // of each owner: until when each is taken
	for _, s := range t.stays() {
		s.widen(t.o.ClockError)
		end := s.acquire.to.place
		if s.release != nil {
			end = max(end, s.release.to.place)
		} else if s.acquire.outcome == lockspec.OK {
			end = 1<<63 - 1
		}
		lane := takeLane(lanes, s.acquire.owner, s.acquire.from.place, end)
		if s.release != nil && s.release.from.place < s.acquire.to.place {
			vague++
			s.acquire.outcome, s.release, s.renewals = lockspec.Unavailable, nil, nil
			lane = fmt.Sprintf("%s/vague%d", s.acquire.owner, vague)
		} else if s.acquire.outcome.Effect() == lockspec.Unknown {
			lane = fmt.Sprintf("%s/unknown%d", s.acquire.owner, len(calls))
		}
		for _, l := range append([]*lockSpan{s.acquire, s.release}, s.renewals...) {
			if l != nil {
				l.process = lane
				calls = append(calls, l.call)
			}
		}
	}
	return calls, vague
}

func (s *stay) widen(by time.Duration) {
	for _, l := range append([]*lockSpan{s.acquire, s.release}, s.renewals...) {
		if l != nil {
			l.from, l.to = l.from.moved(-by), l.to.moved(by)
		}
	}
}

func takeLane(lanes map[string][]int64, owner string, from, to int64) string {
	taken := lanes[owner]
	n := slices.IndexFunc(taken, func(until int64) bool { return until < from })
	if n < 0 {
		n = len(taken)
		lanes[owner] = append(taken, to)
	} else {
		taken[n] = to
	}
	if n == 0 {
		return owner
	}
	return fmt.Sprintf("%s/%d", owner, n+1)
}

// stays pairs spans: each hold with the last ok acquisition of its owner and
// key that ended before it began, each release with the first tenure that is
// open, each renewal with the last one that began before.
func (t *tracer) stays() []*stay {
	slices.SortStableFunc(t.spans, func(a, b *lockSpan) int { return compare(a.from.place, b.from.place) })
	slack := int64(t.o.ClockError) * 2
	var all []*stay
	for _, l := range t.spans {
		if l.op == history.Acquire && !l.hold {
			all = append(all, &stay{acquire: l})
		}
	}
	for _, l := range t.spans {
		if !l.hold {
			continue
		}
		s := lastStay(all, l, func(s *stay) bool { return s.hold == nil && s.acquire.to.place <= l.from.place+slack })
		if s == nil {
			granted := *l
			granted.hold, granted.to = false, l.from
			s = &stay{acquire: &granted}
			all = append(all, s)
		}
		s.hold = l
	}
	slices.SortStableFunc(all, func(a, b *stay) int { return compare(a.acquire.from.place, b.acquire.from.place) })
	for _, l := range t.spans {
		switch l.op {
		case history.Release:
			if s := firstStay(all, l, func(s *stay) bool { return s.release == nil && s.acquire.to.place <= l.from.place+slack }); s != nil {
				s.release = l
			}
		case history.Renew:
			if s := lastStay(all, l, func(s *stay) bool { return s.acquire.to.place <= l.from.place+slack }); s != nil {
				s.renewals = append(s.renewals, l)
			}
		}
	}
	for _, s := range all {
		if s.hold != nil && s.release == nil {
			r := *s.hold
			r.op, r.from, r.outcome = history.Release, s.hold.to, lockspec.OK
			s.release = &r
		}
	}
	return all
}

func lastStay(all []*stay, l *lockSpan, fits func(*stay) bool) *stay {
	for _, s := range slices.Backward(all) {
		if s.of(l) && fits(s) {
			return s
		}
	}
	return nil
}

func firstStay(all []*stay, l *lockSpan, fits func(*stay) bool) *stay {
	for _, s := range all {
		if s.of(l) && fits(s) {
			return s
		}
	}
	return nil
}

func (s *stay) of(l *lockSpan) bool {
	return s.acquire.owner == l.owner && s.acquire.key == l.key && s.acquire.outcome == lockspec.OK
}
