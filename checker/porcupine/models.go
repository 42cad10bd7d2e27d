package porcupine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// holder is one who holds.
type holder struct {
	tenure, owner string
	read          bool
	count         int
}

// state is the lock's. It is never changed, only replaced.
type state struct {
	holders []holder // sorted by tenure
	end     int64    // lease, fenced: the earliest end of the last tenure
	last    string   // lease, fenced: that tenure
	token   int64    // the highest granted
}

func (s state) equal(o state) bool {
	return slices.Equal(s.holders, o.holders) && s.end == o.end && s.last == o.last && s.token == o.token
}

// Model is a checker's model in porcupine's terms. Renewals are not modelled: a
// history with some is refused by Check.
//
// The models lease and fenced know time: a state holds the earliest moment at
// which the last tenure can have ended, which is all that the next grant needs
// (checker's chain has the proof).
func Model(m checker.Model) (porcupine.Model, error) {
	var step func(state, Input, Output) []state
	switch m.Kind {
	case checker.ModelMutex, checker.ModelOwner, checker.ModelPermits, checker.ModelReadWrite, checker.ModelReentrant:
		step = func(s state, in Input, out Output) []state { return plain(m, s, in, out) }
	case checker.ModelLease, checker.ModelFenced:
		step = func(s state, in Input, out Output) []state { return timed(m, s, in, out) }
	default:
		return porcupine.Model{}, fmt.Errorf("porcupine: no model %q", m)
	}
	n := porcupine.NondeterministicModel{
		Partition: byKey,
		Init:      func() []any { return []any{state{}} },
		Step: func(st, in, out any) []any {
			var next []any
			for _, s := range step(st.(state), in.(Input), out.(Output)) {
				next = append(next, s)
			}
			return next
		},
		Equal:             func(a, b any) bool { return a.(state).equal(b.(state)) },
		DescribeOperation: func(in, out any) string { return describe(in.(Input), out.(Output)) },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
	return n.ToModel(), nil
}

func byKey(ops []porcupine.Operation) [][]porcupine.Operation {
	var order []string
	parts := map[string][]porcupine.Operation{}
	for _, op := range ops {
		k := op.Input.(Input).Key
		if parts[k] == nil {
			order = append(order, k)
		}
		parts[k] = append(parts[k], op)
	}
	var out [][]porcupine.Operation
	for _, k := range order {
		out = append(out, parts[k])
	}
	return out
}

// plain is the models without time.
func plain(m checker.Model, s state, in Input, out Output) []state {
	var next []state
	if out.Unknown {
		next = append(next, s) // it may have had no effect
	}
	switch in.Op {
	case history.Acquire:
		h := holder{in.Tenure, in.Owner, in.Read, in.Count}
		if out.Unknown {
			h.tenure = fmt.Sprintf("unknown-%d", in.Index)
		}
		if s.allows(m, h) {
			next = append(next, s.with(h))
		}
	case history.Release:
		if m.Kind == checker.ModelMutex && !out.Unknown && out.Outcome != lockspec.OK {
			return []state{s} // a failed release had no effect
		}
		next = append(next, s.without(in.Tenure))
	}
	return next
}

func (s state) allows(m checker.Model, h holder) bool {
	used := h.count
	for _, o := range s.holders {
		used += o.count
		switch m.Kind {
		case checker.ModelPermits:
		case checker.ModelReadWrite:
			if !h.read || !o.read {
				return false
			}
		case checker.ModelReentrant:
			if h.owner != o.owner {
				return false
			}
		default:
			return false
		}
	}
	return m.Kind != checker.ModelPermits || used <= m.Permits
}

func (s state) with(h holder) state {
	s.holders = append(slices.Clone(s.holders), h)
	slices.SortFunc(s.holders, func(a, b holder) int { return strings.Compare(a.tenure, b.tenure) })
	return s
}

func (s state) without(tenure string) state {
	s.holders = slices.DeleteFunc(slices.Clone(s.holders), func(h holder) bool { return h.tenure == tenure })
	return s
}

// timed is the models lease and fenced.
func timed(m checker.Model, s state, in Input, out Output) []state {
	switch {
	case in.Op == history.Acquire && out.Unknown:
		return []state{s} // at best it did nothing: a later end helps nobody
	case in.Op == history.Acquire:
		g := max(in.Invoked, s.end)
		if g > out.Returned || m.Kind == checker.ModelFenced && in.Token <= s.token {
			return nil
		}
		s.end, s.last, s.token = g+in.Lease, in.Tenure, max(s.token, in.Token)
	case s.last == in.Tenure:
		s.end = min(s.end, in.Invoked)
	}
	return []state{s}
}

func describe(in Input, out Output) string {
	what := string(in.Op)
	if in.Read {
		what += " read"
	}
	if in.Tenure != "" {
		what += " " + in.Tenure
	}
	if in.Token != 0 {
		what += fmt.Sprintf(" token %d", in.Token)
	}
	if out.Unknown {
		return what + " → unknown"
	}
	return fmt.Sprintf("%s → %s", what, out.Outcome)
}

func (s state) String() string {
	var held []string
	for _, h := range s.holders {
		held = append(held, h.tenure)
	}
	if s.last != "" {
		return fmt.Sprintf("%s until %s at the earliest", s.last, checker.Clock(s.end))
	}
	if len(held) == 0 {
		return "free"
	}
	return "held by " + strings.Join(held, ", ")
}
