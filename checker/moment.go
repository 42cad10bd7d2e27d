package checker

import (
	"fmt"
	"math"
	"time"
)

// Moment is a point of a run. Moments that the harness stamped have an Index,
// and their order is exact; a driver's own stamp, of a clock that was proven to
// be the harness's, has only a time; the end of a lease is measured by two
// clocks, and a comparison with it needs more than ε.
//
// Counter-example to comparing by time alone: two stamps in one nanosecond,
// grant of j and release of i, are ordered by their indices, and only one of
// the two orders is an overlap.
type Moment struct {
	Time  int64 // ns of the run
	Index int64 // of the event; negative where the harness saw none
}

const (
	unstamped = -1
	leaseEnd  = -2 // unstamped, too
)

// never is after every moment of a run.
var never = Moment{Time: math.MaxInt64, Index: unstamped}

// longAgo is before every moment of a run.
var longAgo = Moment{Time: math.MinInt64 / 2, Index: unstamped}

func at(t int64) Moment { return Moment{Time: t, Index: unstamped} }

func (m Moment) stamped() bool { return m.Index >= 0 }

// measured says whether it is the end of a lease.
func (m Moment) measured() bool { return m.Index == leaseEnd }

// before is strict; moments of one time of which one is unstamped are not
// before each other.
func (m Moment) before(o Moment) bool {
	if m.stamped() && o.stamped() {
		return m.Index < o.Index
	}
	return m.Time < o.Time
}

func earlier(a, b Moment) Moment {
	if b.before(a) {
		return b
	}
	return a
}

func later(a, b Moment) Moment {
	if a.before(b) {
		return b
	}
	return a
}

func order(a, b Moment) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	}
	return 0
}

func (m Moment) plus(d time.Duration) Moment {
	if m.Time > math.MaxInt64-int64(d) {
		return never
	}
	return Moment{Time: m.Time + int64(d), Index: leaseEnd}
}

// Span is a stretch of a run, from its first moment up to its last.
type Span struct{ From, To Moment }

func (s Span) empty() bool { return !s.From.before(s.To) }

// Length is how long the span is, never negative.
func (s Span) Length() time.Duration { return max(0, time.Duration(s.To.Time-s.From.Time)) }

func (s Span) String() string {
	return fmt.Sprintf("%s–%s", Clock(s.From.Time), Clock(s.To.Time))
}

// meet is what two spans share.
func meet(a, b Span) Span { return Span{later(a.From, b.From), earlier(a.To, b.To)} }

// certainty of a shared span: two stamps of one clock prove it whatever its
// length, the end of a lease proves it only beyond eps.
type certainty int

const (
	apart certainty = iota
	tooClose
	certain
)

func (s Span) certainty(eps time.Duration) certainty {
	switch {
	case s.empty():
		return apart
	case !s.From.measured() && !s.To.measured(), s.To.Time-s.From.Time > int64(eps):
		return certain
	default:
		return tooClose
	}
}

// meetAll is the most certain and, of equals, the longest stretch that two
// sets of spans share.
func meetAll(as, bs []Span, eps time.Duration) (Span, certainty) {
	var best Span
	sure := apart
	for _, a := range as {
		for _, b := range bs {
			s := meet(a, b)
			c := s.certainty(eps)
			if c > sure || c == sure && c != apart && s.Length() > best.Length() {
				best, sure = s, c
			}
		}
	}
	return best, sure
}

// Clock writes a time of a run for people: seconds with milliseconds.
func Clock(ns int64) string {
	if ns == math.MaxInt64 {
		return "the end"
	}
	return fmt.Sprintf("%.3fs", float64(ns)/1e9)
}
