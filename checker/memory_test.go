package checker

import (
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
