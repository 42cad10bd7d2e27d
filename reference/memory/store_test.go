package memory

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

var epoch = time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)

func onFake(t testing.TB) (*Store, func(time.Duration)) {
	f := fakeclock.NewFake(epoch)
	return New(f), func(d time.Duration) {
		if err := f.Advance(d); err != nil {
			t.Fatal(err)
		}
	}
}

func mustAcquire(t testing.TB, s *Store, r Request) int64 {
	t.Helper()
	token, err := s.Acquire(r)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return token
}

func TestLeaseEndsOnTheStoresClock(t *testing.T) {
	s, advance := onFake(t)
	a := Request{Key: "k", Owner: "a", Lease: time.Second}
	b := Request{Key: "k", Owner: "b", Lease: time.Second}
	first := mustAcquire(t, s, a)
	advance(time.Second - 1)
	if _, err := s.Acquire(b); !errors.Is(err, lockspec.ErrBusy) {
		t.Fatalf("before the end: %v", err)
	}
	if again := mustAcquire(t, s, a); again != first {
		t.Errorf("its own key: token %d, want %d", again, first)
	}
	advance(time.Second - 1)
	if err := s.Renew("k", "a", time.Minute); err != nil {
		t.Errorf("renew: %v", err)
	}
	if st := s.Inspect("k"); len(st) != 1 || st[0].Left != time.Minute || st[0].Owner != "a" || st[0].Token != first {
		t.Errorf("inspect: %+v", st)
	}
	advance(time.Minute)
	if err := s.Renew("k", "a", time.Minute); reason(err) != reference.Expired {
		t.Errorf("an expired lease was revived: %v", err)
	}
	second := mustAcquire(t, s, b)
	if second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	for name, err := range map[string]error{"renew": s.Renew("k", "a", time.Minute), "release": s.Release("k", "a")} {
		if reason(err) != reference.TakenOver {
			t.Errorf("%s of a former owner: %v", name, err)
		}
	}
	if err := s.Release("k", "b"); err != nil || s.Len() != 0 {
		t.Errorf("release: %v, %d keys left", err, s.Len())
	}
	if err := s.Release("k", "b"); reason(err) != reference.Expired {
		t.Errorf("second release: %v", err)
	}
}

func reason(err error) reference.Reason {
	var loss *reference.LostError
	if !errors.As(err, &loss) {
		return ""
	}
	return loss.Reason
}

func TestTokensRiseThroughEverything(t *testing.T) {
	s, advance := onFake(t)
	last := int64(0)
	r := Request{Key: "k", Owner: "o", Lease: time.Second}
	for i := range 100 {
		token := mustAcquire(t, s, r)
		if token <= last || token > 1<<53 {
			t.Fatalf("token %d after %d", token, last)
		}
		last = token
		switch i % 5 {
		case 0:
			s.Release("k", "o")
		case 1:
			s.Delete("k")
		case 2:
			s.Restart()
		case 3:
			advance(time.Second)
		case 4:
			s.Shift(time.Second)
		}
	}
	// A new process knows the clock only: its floor is above what was given.
	advance(time.Millisecond)
	other := New(s.clock)
	if token := mustAcquire(t, other, r); token <= last {
		t.Errorf("token %d of a new process after %d", token, last)
	}
}

func TestStoreRefusesNonsense(t *testing.T) {
	s, _ := onFake(t)
	for name, tc := range map[string]struct {
		r    Request
		want error
	}{
		"owner":   {Request{Key: "k", Lease: 1}, lockspec.ErrConfig},
		"lease":   {Request{Key: "k", Owner: "o"}, lockspec.ErrConfig},
		"permits": {Request{Key: "k", Owner: "o", Lease: 1, Count: 2}, lockspec.ErrUnsupported},
	} {
		if _, err := s.Acquire(tc.r); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Renew("k", "o", 0); !errors.Is(err, lockspec.ErrConfig) {
		t.Errorf("renew: %v", err)
	}
}

func TestAbandonedKeysAreForgotten(t *testing.T) {
	s, advance := onFake(t)
	for round := range 10 {
		for i := range 1000 {
			mustAcquire(t, s, Request{Key: fmt.Sprint(round, i), Owner: "o", Lease: time.Second})
		}
		advance(time.Second)
	}
	if n := len(s.keys); n > 2*1000 {
		t.Errorf("%d expired keys are kept", n)
	}
	if s.Len() != 0 {
		t.Errorf("%d keys are held", s.Len())
	}
}

// model is what a store is supposed to be, without any thought of speed.
type model struct {
	now   time.Duration
	holds []modelHold
	last  int64
}

type modelHold struct {
	key, owner string
	token      int64
	read       bool
	count      int
	end        time.Duration
}

func (m *model) live(key string) (live []modelHold) {
	for _, h := range m.holds {
		if h.key == key && h.end > m.now {
			live = append(live, h)
		}
	}
	return live
}

func (m *model) hold(key, owner string) *modelHold {
	for i := range m.holds {
		if h := &m.holds[i]; h.key == key && h.owner == owner && h.end > m.now {
			return h
		}
	}
	return nil
}

func (m *model) drop(keep func(modelHold) bool) {
	var rest []modelHold
	for _, h := range m.holds {
		if keep(h) {
			rest = append(rest, h)
		}
	}
	m.holds = rest
}

// fits says whether a request may be granted. A waiting writer may keep
// readers out; must is false then.
func (m *model) fits(r Request) (may, must bool) {
	taken := 0
	for _, h := range m.live(r.Key) {
		if h.read != (r.Mode == lockspec.Read) {
			return false, false
		}
		taken += h.count
	}
	if r.Mode == lockspec.Read {
		return true, false
	}
	return taken+r.Count <= r.Limit, taken+r.Count <= r.Limit
}

func TestStoreAgreesWithItsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, advance := onFake(t)
		m := &model{}
		limit := rapid.IntRange(1, 3).Draw(rt, "limit")
		key := rapid.SampledFrom([]string{"k", "l"})
		owner := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		lease := rapid.Custom(func(rt *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(1, 5).Draw(rt, "lease")) * time.Second
		})
		rt.Repeat(map[string]func(*rapid.T){
			"acquire": func(rt *rapid.T) {
				r := Request{Key: key.Draw(rt, "key"), Owner: owner.Draw(rt, "owner"), Lease: lease.Draw(rt, "lease"),
					Count: rapid.IntRange(1, limit).Draw(rt, "count"), Limit: limit}
				if limit == 1 && rapid.Bool().Draw(rt, "read") {
					r.Mode = lockspec.Read
				}
				token, err := s.Acquire(r)
				if h := m.hold(r.Key, r.Owner); h != nil {
					if err != nil || token != h.token {
						rt.Fatalf("its own key: %d %v, want %d", token, err, h.token)
					}
					h.end = m.now + r.Lease
					return
				}
				may, must := m.fits(r)
				switch {
				case err == nil && !may, err != nil && must, err != nil && !errors.Is(err, lockspec.ErrBusy):
					rt.Fatalf("%+v: %v; may %v, must %v", r, err, may, must)
				case err == nil && token <= m.last:
					rt.Fatalf("token %d after %d", token, m.last)
				case err == nil:
					m.last = token
					m.holds = append(m.holds, modelHold{r.Key, r.Owner, token, r.Mode == lockspec.Read, r.Count, m.now + r.Lease})
				}
			},
			"renew": func(rt *rapid.T) {
				k, o, d := key.Draw(rt, "key"), owner.Draw(rt, "owner"), lease.Draw(rt, "lease")
				err := s.Renew(k, o, d)
				h := m.hold(k, o)
				if (err == nil) != (h != nil) {
					rt.Fatalf("renew: %v, holds %v", err, h)
				}
				if h != nil {
					h.end = m.now + d
				}
			},
			"release": func(rt *rapid.T) {
				k, o := key.Draw(rt, "key"), owner.Draw(rt, "owner")
				err := s.Release(k, o)
				if h := m.hold(k, o); (err == nil) != (h != nil) {
					rt.Fatalf("release: %v, holds %v", err, h)
				}
				m.drop(func(h modelHold) bool { return h.key != k || h.owner != o })
			},
			"delete": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				if got := s.Delete(k); got != (len(m.live(k)) > 0) {
					rt.Fatalf("delete: %v", got)
				}
				m.drop(func(h modelHold) bool { return h.key != k })
			},
			"restart": func(*rapid.T) {
				s.Restart()
				m.holds = nil
			},
			"pass": func(rt *rapid.T) {
				d := lease.Draw(rt, "time")
				advance(d)
				m.now += d
			},
			"shift": func(rt *rapid.T) {
				d := lease.Draw(rt, "by") - 3*time.Second
				m.drop(func(h modelHold) bool { return h.end > m.now }) // what has ended stays so
				for k := range s.keys {
					s.Inspect(k)
				}
				s.Shift(d)
				for i := range m.holds {
					m.holds[i].end -= d
				}
			},
			"": func(rt *rapid.T) {
				for _, k := range []string{"k", "l"} {
					live := m.live(k)
					seen := s.Inspect(k)
					if len(live) != len(seen) {
						rt.Fatalf("%s: store %v, model %v", k, seen, live)
					}
					for i, h := range seen {
						if w := live[i]; h.Owner != w.owner || h.Token != w.token || h.Left != w.end-m.now || h.Count != w.count {
							rt.Fatalf("%s: store %v, model %v", k, seen, live)
						}
					}
				}
			},
		})
	})
}

func TestWritersAreNotStarved(t *testing.T) {
	s, advance := onFake(t)
	read := func(owner string) error {
		_, err := s.Acquire(Request{Key: "k", Owner: owner, Lease: time.Second, Mode: lockspec.Read})
		return err
	}
	write := Request{Key: "k", Owner: "w", Lease: time.Second}
	if read("a") != nil {
		t.Fatal("a free key")
	}
	if _, err := s.Acquire(write); !errors.Is(err, lockspec.ErrBusy) || read("b") != nil {
		t.Fatalf("a writer's try beside readers: %v; or it keeps readers out", err)
	}
	write.Waits = true
	if _, err := s.Acquire(write); !errors.Is(err, lockspec.ErrBusy) {
		t.Fatalf("a writer beside readers: %v", err)
	}
	if err := read("c"); !errors.Is(err, lockspec.ErrBusy) {
		t.Errorf("a reader overtook a waiting writer: %v", err)
	}
	s.Release("k", "a")
	s.Release("k", "b")
	mustAcquire(t, s, write)
	if err := read("c"); !errors.Is(err, lockspec.ErrBusy) {
		t.Errorf("a reader beside a writer: %v", err)
	}
	s.Release("k", "w")
	if err := read("c"); err != nil {
		t.Errorf("a reader after the writer: %v", err)
	}
	// A writer that gave up does not keep readers out for ever.
	s.Acquire(write)
	if err := s.Renew("k", "c", time.Hour); err != nil {
		t.Fatal(err)
	}
	advance(writerPatience)
	if err := read("d"); err != nil {
		t.Errorf("a reader long after a writer gave up: %v", err)
	}
}
