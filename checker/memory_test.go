package checker

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/checker/internal/load"
	"github.com/lockcheck/lockcheck/lockspec"
)

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryPerKey: a key on which nothing is open costs no more than 100
// bytes where its highest token has to be kept, and nothing where not.
func TestMemoryPerKey(t *testing.T) {
	const keys = 100_000
	for model, most := range map[string]int64{"fenced": 100, "lease": 5, "mutex": 5, "permits:2": 5} {
		m, err := ParseModel(model)
		if err != nil {
			t.Fatal(err)
		}
		s := NewStream(&history.Header{Class: lockspec.Leased}, m, &StreamOptions{Workers: 1})
		l := load.New(load.Options{Clients: 5, Fresh: true})
		before := heap()
		var e history.Event
		for range 4 * keys {
			l.Next(&e)
			s.Add(&e)
		}
		s.shards[0].forget()
		each := (heap() - before) / keys
		t.Logf("%s: %d bytes a key", model, each)
		if each > most {
			t.Errorf("%s: %d bytes a key, want at most %d", model, each, most)
		}
		if sum := s.Close(); sum.Violations > 0 {
			t.Error(sum.Findings[0])
		}
	}
}

// TestForgets: what is open bounds the memory, not what has been.
func TestForgets(t *testing.T) {
	s := NewStream(&history.Header{Class: lockspec.Leased}, Model{Kind: ModelLease}, &StreamOptions{Workers: 1})
	l := load.New(load.Options{Clients: 5, Keys: 16, Unknown: true})
	var e history.Event
	for range 300_000 {
		l.Next(&e)
		s.Add(&e)
		if d := s.shards[0]; len(d.keys) > 2000 || len(d.holds) > 2000 || len(d.opens) > 5 {
			t.Fatalf("after %d events: %d keys, %d tenures, %d acquisitions", e.Index, len(d.keys), len(d.holds), len(d.opens))
		}
	}
	if sum := s.Close(); sum.Outcome != Pass {
		t.Error(sum.Findings)
	}
}

// TestLongTenure: one that is renewed a hundred thousand times costs what one
// that is renewed ten times costs, and still excludes others.
func TestLongTenure(t *testing.T) {
	s := NewStream(&history.Header{Class: lockspec.Leased}, Model{Kind: ModelLease}, &StreamOptions{Workers: 1})
	var n int64
	add := func(p string, typ history.Type, op history.Op, tenure string) {
		e := history.Event{Index: n, Time: n * 1e6, Type: typ, Op: op, Process: p, Key: "k", Tenure: tenure, Ask: 10e6}
		if typ == history.OK {
			e.Lease = 10e6
		}
		s.Add(&e)
		n++
	}
	add("p1", history.Invoke, history.Acquire, "")
	add("p1", history.OK, history.Acquire, "t1")
	for range 100_000 {
		add("p1", history.Invoke, history.Renew, "t1")
		add("p1", history.OK, history.Renew, "t1")
	}
	if kept := len(s.shards[0].holds["t1"].renewals); kept > mostRenewals {
		t.Errorf("%d renewals are kept", kept)
	}
	add("p2", history.Invoke, history.Acquire, "")
	add("p2", history.OK, history.Acquire, "t2")
	if sum := s.Close(); sum.Violations != 1 || sum.Findings[0].Rule != "chain" {
		t.Errorf("%+v", sum)
	}
}

// TestForgetsNothingNew: what is forgotten while a key is being taken is not
// that key. Found by reading; the key was new, or its former holder had left
// just before.
func TestForgetsNothingNew(t *testing.T) {
	for _, model := range []ModelKind{ModelMutex, ModelOwner, ModelLease, ModelFenced, ModelReadWrite} {
		for fill := 1015; fill < 1030; fill++ { // the first time is at 1,024
			var events []history.Event
			add := func(e history.Event) {
				e.Index = int64(len(events))
				e.Time = e.Index
				events = append(events, e)
			}
			take := func(process, key, tenure string, token int) {
				add(history.Event{Type: history.Invoke, Op: history.Acquire, Process: process, Owner: process, Key: key})
				add(history.Event{Type: history.OK, Op: history.Acquire, Process: process, Owner: process, Key: key, Tenure: tenure, Token: int64(token)})
			}
			for n := range fill {
				take("p", fmt.Sprint("k", n), fmt.Sprint("t", n), n+1)
				add(history.Event{Type: history.Invoke, Op: history.Release, Process: "p", Key: fmt.Sprint("k", n), Tenure: fmt.Sprint("t", n)})
				add(history.Event{Type: history.OK, Op: history.Release, Process: "p", Key: fmt.Sprint("k", n), Tenure: fmt.Sprint("t", n)})
			}
			take("a", "k", "first", 2001)
			take("b", "k", "second", 2002)
			s := NewStream(&history.Header{Class: lockspec.Memory}, Model{model, 1}, &StreamOptions{Workers: 1})
			for i := range events {
				s.Add(&events[i])
			}
			if sum := s.Close(); sum.Violations != 1 {
				t.Fatalf("%s, after %d keys: %d violations, want 1", model, fill, sum.Violations)
			}
		}
	}
}
