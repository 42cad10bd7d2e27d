package driver

import (
	"errors"
	"fmt"
	"testing"
)

// A loss is written before any reply computed after it: of the same tenure, of
// another, and of a ping. A write that had passed its check answers ok.
func TestLossComesFirst(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"acquire","process":"p1","key":"a?lost=20ms"}
			← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":1}
			→ {"id":3,"op":"write","process":"p1","lease":"L1","work_ms":50}
			← {"event":"lost","lease":"L1","reason":"expired"}
			← {"id":3,"outcome":"ok","token":1}
			→ {"id":4,"op":"write","process":"p1","lease":"L1"}
			← {"id":4,"outcome":"lost","message":"lock lost: expired"}
			→ {"id":5,"op":"held","process":"p1","lease":"L1"}
			← {"id":5,"outcome":"not-held","message":"lock not held"}
			→ {"id":6,"op":"release","process":"p1","lease":"L1"}
			← {"id":6,"outcome":"lost","message":"lock lost"}
		`)
	})
}

func TestEveryReplyTellsWhatWasRaised(t *testing.T) {
	for _, request := range []string{
		`{"id":9,"op":"ping"}`,
		`{"id":9,"op":"held","lease":"L2"}`,
		`{"id":9,"op":"acquire","key":"c"}`,
		`{"id":9,"op":"unheard-of"}`,
	} {
		greeted(t, func(s *session) {
			s.script(`
				→ {"id":2,"op":"acquire","process":"p1","key":"a"}
				← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":1}
				→ {"id":3,"op":"acquire","process":"p2","key":"b"}
				← {"id":3,"outcome":"ok","lease":"L2","token":2,"lease_ms":1}
			`)
			lost := s.toy.holder("a")
			go lost.lose(errors.New("evicted"))
			<-lost.lost
			s.send(request)
			if got := s.next(); got != `{"event":"lost","lease":"L1","reason":"evicted"}` {
				t.Errorf("%s: got %s before the loss", request, got)
			}
			s.next()
		})
	}
}

func TestLossBeforeTheReplyFollowsIt(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"acquire","process":"p1","key":"a?lost=0ms"}
			← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":1}
			← {"event":"lost","lease":"L1","reason":"expired"}
		`)
	})
}

func TestRenewalsComeBeforeTheReply(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"acquire","process":"p1","key":"a?renewals"}
			← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":1}
			→ {"id":3,"op":"renew","process":"p1","lease":"L1","lease_ms":500}
		`)
		for i := range 500 {
			if got, want := s.next(), fmt.Sprintf(`{"event":"renewed","lease":"L1","lease_ms":%d}`, i+1); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
		s.script(`← {"id":3,"outcome":"ok","lease_ms":1}`)
	})
}

func TestDoubt(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"acquire","process":"p1","key":"a?doubts"}
			← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":1}
			→ {"id":3,"op":"renew","process":"p1","lease":"L1","lease_ms":3600000}
			← {"event":"doubt","lease":"L1"}
			← {"id":3,"outcome":"ok","lease_ms":1}
			→ {"id":4,"op":"write","process":"p1","lease":"L1"}
			← {"id":4,"outcome":"unavailable","message":"lock service unavailable: the connection is in doubt"}
			→ {"id":5,"op":"held","process":"p1","lease":"L1"}
			← {"id":5,"outcome":"unavailable","message":"lock service unavailable: the connection is in doubt"}
			→ {"id":6,"op":"renew","process":"p1","lease":"L1","lease_ms":1}
			← {"event":"sure","lease":"L1"}
			← {"id":6,"outcome":"ok","lease_ms":1}
			→ {"id":7,"op":"write","process":"p1","lease":"L1"}
			← {"id":7,"outcome":"ok","token":1}
		`)
	})
}
