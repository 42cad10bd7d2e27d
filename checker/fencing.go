package checker

import (
	"fmt"
	"slices"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// resource is what the two registers of a history show. The open register
// takes every write; the fenced one refuses tokens below the highest it has
// seen. A write is a read-modify-write; harm is an accepted write that was
// based on another version than the one just before it.
type resource struct {
	fenced map[string][]*access // accesses of the fenced register, by tenure
	harmed map[string]int       // updates that a tenure lost to others in the fenced register
	lost   []lostUpdate         // of the open register
	known  map[string]*Tenure
}

type lostUpdate struct {
	LostUpdate
	at, over int64 // when it was written, and when what it ignored was
}

func (s *resource) tenure(id string) *Tenure { return s.known[id] }

// seal is the first access of the fenced register by the tenure that it
// accepted, and the first that it refused before that.
func (s *resource) seal(tenure string) (accepted, refused *access) {
	for _, a := range s.fenced[tenure] {
		if a.kind == history.RegisterRead {
			if a.accepted == history.Rejected {
				return nil, a
			}
			return a, nil
		}
	}
	return nil, nil
}

func (s *resource) writes(tenure string) []*access {
	return slices.DeleteFunc(slices.Clone(s.fenced[tenure]), func(a *access) bool { return a.kind != history.RegisterWrite })
}

// cell is the state of one register for one key as a history goes by.
type cell struct {
	version int64
	writer  string
	event   int64
	at      int64 // when the open register was last written
	highest int64 // token
	by      string
	seal    *access // by which the highest token was first seen
}

// judgeRegisters replays the registers.
func (r *record) judgeRegisters(v *Verdict) *resource {
	s := &resource{fenced: map[string][]*access{}, harmed: map[string]int{}, known: map[string]*Tenure{}}
	for _, t := range r.tenures {
		s.known[t.ID] = t
	}
	cells := map[[2]string]*cell{}
	for i := range r.accesses {
		a := &r.accesses[i]
		k := [2]string{a.register, a.key}
		if cells[k] == nil {
			cells[k] = &cell{version: a.first()}
		}
		if a.register == history.FencedRegister {
			s.fenced[a.tenure] = append(s.fenced[a.tenure], a)
			cells[k].replayFenced(v, s, a)
		} else {
			cells[k].replayOpen(v, s, a)
		}
	}
	return s
}

// first is the version that a register had before the access.
func (a *access) first() int64 {
	if a.kind == history.RegisterWrite && a.accepted != history.Rejected {
		return a.basedOn
	}
	return a.version
}

func (c *cell) replayOpen(v *Verdict, s *resource, a *access) {
	if a.kind != history.RegisterWrite {
		return
	}
	if a.basedOn != c.version {
		u := LostUpdate{Tenure: a.tenure, Over: c.writer, Number: a.basedOn, Event: a.at.Index, Other: c.event}
		s.lost = append(s.lost, lostUpdate{u, a.at.Time, c.at})
		v.Measures.LostUpdates = append(v.Measures.LostUpdates, u)
	}
	c.version, c.writer, c.event, c.at = a.version, a.tenure, a.at.Index, a.at.Time
}

func (c *cell) replayFenced(v *Verdict, s *resource, a *access) {
	stale := a.token < c.highest
	write := a.kind == history.RegisterWrite
	if stale && write {
		v.Measures.StaleTried++
		if a.accepted == history.Rejected {
			v.Measures.StaleDenied++
		}
	}
	if a.accepted == history.Rejected {
		a.against = c.seal
		return
	}
	if stale {
		v.find(Finding{Kind: Fencing, Rule: "register-accepted-stale-token", Level: Resource, Key: a.key,
			Tenures: []string{c.by, a.tenure}, Events: []int64{c.event, a.at.Index},
			Message: fmt.Sprintf("the resource accepted a %s of %s with token %d after it had seen token %d of %s", a.kind, a.tenure, a.token, c.highest, c.by)})
	}
	if write && a.basedOn != c.version {
		v.Measures.FencedHarm++
		s.harmed[a.tenure]++
		s.harmed[c.writer]++
		v.find(Finding{Kind: Fencing, Rule: "fenced-update-lost", Level: Resource, Key: a.key,
			Tenures: []string{c.writer, a.tenure}, Events: []int64{c.event, a.at.Index},
			Message: fmt.Sprintf("%s wrote to the fenced register on top of version %d, which was no longer the last", a.tenure, a.basedOn)})
	}
	if write {
		c.version, c.writer = a.version, a.tenure
	}
	if a.token > c.highest {
		c.seal = a
	}
	if a.token >= c.highest {
		c.highest, c.by, c.event = a.token, a.tenure, a.at.Index
	}
}

// repeatedTokens: two tenures have one token only where they share the lock, as
// readers do and an owner with itself. (Repetitions in the order of time are
// found by judgeTokens.)
func (r *record) repeatedTokens(v *Verdict, group []*Tenure) {
	first := map[int64]*Tenure{}
	for _, j := range group {
		i := first[j.Token]
		switch {
		case j.Token == 0:
		case i == nil:
			first[j.Token] = j
		case r.exclude(i, j) && !i.Return.before(j.Invoke):
			v.find(Finding{Kind: Fencing, Rule: "token-repeated", Level: Service, Key: j.Key, Tenures: []string{i.ID, j.ID},
				Events:  []int64{i.Return.Index, j.Return.Index},
				Message: fmt.Sprintf("%s and %s were both granted token %d: a resource cannot tell them apart", i.ID, j.ID, j.Token)})
		}
	}
}

// judgeTokens: token_i < token_j is required exactly where i was granted
// before j was asked for; between acquisitions that overlap any order is right.
//
// Counter-example to ordering by the return: i asks, j asks and is answered
// with 7, i is answered with 6. The service granted 6 first, and its reply was
// slow.
func (r *record) judgeTokens(v *Verdict) {
	if c, claimed := r.header.Claims[lockspec.Fencing]; claimed && c == history.False {
		return
	}
	for _, group := range r.byKey() {
		r.repeatedTokens(v, group)
		byInvoke := slices.Clone(group)
		slices.SortFunc(byInvoke, func(a, b *Tenure) int { return order(a.Invoke, b.Invoke) })
		var top *Tenure
		next := 0
		for _, j := range byInvoke {
			for next < len(group) && group[next].Return.before(j.Invoke) {
				if i := group[next]; i.Token != 0 && (top == nil || i.Token > top.Token) {
					top = i
				}
				next++
			}
			if top == nil || j.Token == 0 || j.Token > top.Token || j.Token == top.Token && !r.exclude(top, j) {
				continue
			}
			v.find(Finding{Kind: Fencing, Rule: "token-order", Level: Service, Key: j.Key, Tenures: []string{top.ID, j.ID},
				Events:  []int64{top.Return.Index, j.Return.Index},
				Message: fmt.Sprintf("%s was granted token %d before %s was asked for, which got token %d", top.ID, top.Token, j.ID, j.Token)})
		}
	}
}
