package driver

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A call that does not come back is answered in time, and what it is granted
// afterwards is released.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name, request string
		cancelAfter   time.Duration
		want          time.Duration
	}{
		{"one attempt", `{"id":2,"op":"acquire","process":"p1","key":"a?deaf=1m"}`, 0, callBound},
		{"waiting", `{"id":2,"op":"acquire","process":"p1","key":"a?deaf=1m","wait_ms":3000}`, 0, callBound + 3*time.Second},
		{"cancelled", `{"id":2,"op":"acquire","process":"p1","key":"a?deaf=1m","wait_ms":-1}`, time.Second, callBound + time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			greeted(t, func(s *session) {
				start := time.Now()
				s.send(c.request)
				if c.cancelAfter > 0 {
					time.Sleep(c.cancelAfter)
					s.send(`{"id":3,"op":"cancel","target":2}`)
					s.next()
				}
				if got, want := s.next(), `{"id":2,"outcome":"unavailable","message":"lock service unavailable: the call did not come back"}`; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if took := time.Since(start); took != c.want {
					t.Errorf("answered after %v, want %v", took, c.want)
				}
				time.Sleep(2 * time.Minute)
				s.script(`
					→ {"id":4,"op":"acquire","process":"p1","key":"a?deaf=0s"}
					← {"id":4,"outcome":"ok","lease":"L1","token":2,"lease_ms":1}
				`)
				if l := s.toy.holder("a?deaf=1m"); l != nil {
					t.Error("the late grant was not released")
				}
			})
		})
	}
}

// A client that does keep to its context is given its own words, but a deadline
// of ours is no wish of the caller.
func TestDeadlineOfOursIsUnavailable(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"acquire","process":"p1","key":"a"}
			← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":1}
			→ {"id":3,"op":"acquire","process":"p2","key":"a","wait_ms":1000}
			← {"id":3,"outcome":"unavailable","message":"lock service unavailable: no answer within 6s"}
		`)
	})
}

func TestMaxProcesses(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"acquire","process":"p","key":"a"}
			← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":1}
		`)
		for i := range maxProcesses {
			s.send(fmt.Sprintf(`{"id":%d,"op":"acquire","process":"p%d","key":"a","wait_ms":-1}`, 100+i, i))
		}
		s.script(`
			→ {"id":3,"op":"acquire","process":"more","key":"a"}
			← {"id":3,"outcome":"unavailable","effect":"none","message":"lock service unavailable: more than 64 operations are open"}
			→ {"id":4,"op":"held","process":"p","lease":"L1"}
			← {"id":4,"outcome":"ok"}
			→ {"id":5,"op":"cancel","target":100}
		`)
		s.next()
		s.next()
		s.script(`
			→ {"id":6,"op":"write","process":"p","lease":"L1"}
			← {"id":6,"outcome":"ok","token":1}
		`)
	})
}

func TestIdleOwnersMakeRoom(t *testing.T) {
	greeted(t, func(s *session) {
		s.send(`{"id":2,"op":"acquire","process":"holder","key":"held"}`)
		s.next()
		for i := range maxProcesses + 10 {
			s.send(fmt.Sprintf(`{"id":%d,"op":"acquire","process":"p%d","key":"k%d"}`, 100+2*i, i, i))
			s.next()
			s.send(fmt.Sprintf(`{"id":%d,"op":"release","lease":"L%d"}`, 101+2*i, i+2))
			s.next()
		}
		synctest.Wait()
		if open := s.toy.clients - s.toy.gaveUp(); open != maxProcesses {
			t.Errorf("%d owners are open, want %d", open, maxProcesses)
		}
		s.script(`
			→ {"id":3,"op":"held","lease":"L1"}
			← {"id":3,"outcome":"ok"}
		`)
	})
}

func TestRetiredTenuresAreForgotten(t *testing.T) {
	greeted(t, func(s *session) {
		for i := range retiredKept + 2 {
			s.send(fmt.Sprintf(`{"id":%d,"op":"acquire","process":"p","key":"k"}`, 100+2*i))
			s.next()
			s.send(fmt.Sprintf(`{"id":%d,"op":"release","lease":"L%d"}`, 101+2*i, i+1))
			s.next()
		}
		s.script(`
			→ {"id":3,"op":"release","lease":"L2"}
			← {"id":3,"outcome":"not-held","message":"lock not held: unknown lease \"L2\""}
			→ {"id":4,"op":"release","lease":"L3"}
			← {"id":4,"outcome":"not-held","message":"lock not held"}
		`)
	})
}
