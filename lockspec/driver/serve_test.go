package driver

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

func TestHello(t *testing.T) {
	converse(t, func(s *session) {
		s.script(`
			→ {"id":7,"op":"acquire","key":"k"}
			← {"id":7,"outcome":"error","effect":"none","message":"hello comes first, and once"}
			→ ` + helloLine + `
			← {"id":1,"outcome":"ok","features":["wait","renew","auto-renew","fencing","loss-signal","hold-check","cancel","clock-skew","permits:3"],"bounds":{"lease_min_ms":1,"lease_max_ms":3600000,"takeover_ms":1.5,"cancel_ms":200,"key_max":512,"clock_rate":0.1,"loss_ratio":0.5},"version":1,"name":"toy 1","class":"lease","hazards":["pause"],"clock":"monotonic","max_processes":64}
			→ {"id":8,"op":"hello","versions":[1]}
			← {"id":8,"outcome":"error","effect":"none","message":"hello comes first, and once"}
		`)
	})
}

func TestHelloThatFails(t *testing.T) {
	for _, c := range []struct {
		name, hello, reply string
		want               error
	}{
		{"no common version", `{"id":1,"op":"hello","versions":[2,3]}`,
			`{"id":1,"outcome":"unsupported","message":"not supported by this lock: no common version; this driver speaks 1"}`, errVersion},
		{"no lock", `{"id":1,"op":"hello","versions":[1],"url":"toy:refused"}`,
			`{"id":1,"outcome":"config","message":"lock misconfigured: no such table"}`, errOpen},
	} {
		t.Run(c.name, func(t *testing.T) {
			converse(t, func(s *session) {
				s.send(c.hello)
				if got := s.next(); got != c.reply {
					t.Errorf("got  %s\nwant %s", got, c.reply)
				}
				if err := <-s.ended; !errors.Is(err, c.want) {
					t.Errorf("Serve: %v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestTenure(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"acquire","process":"p1","key":"k","lease_ms":2000.5,"wait_ms":0}
			← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":2000.5}
			→ {"id":3,"op":"acquire","process":"p2","key":"k"}
			← {"id":3,"outcome":"busy","message":"lock is held by another"}
			→ {"id":4,"op":"held","process":"p1","lease":"L1"}
			← {"id":4,"outcome":"ok"}
			→ {"id":5,"op":"renew","process":"p1","lease":"L1","lease_ms":3000}
			← {"id":5,"outcome":"ok","lease_ms":3000}
			→ {"id":6,"op":"write","process":"p1","lease":"L1","work_ms":50}
			← {"id":6,"outcome":"ok","token":1}
			→ {"id":7,"op":"release","process":"p1","lease":"L1"}
			← {"id":7,"outcome":"ok"}
			→ {"id":8,"op":"write","process":"p1","lease":"L1"}
			← {"id":8,"outcome":"not-held","message":"lock not held"}
			→ {"id":9,"op":"release","process":"p1","lease":"L1"}
			← {"id":9,"outcome":"not-held","message":"lock not held"}
			→ {"id":10,"op":"held","process":"p1","lease":"L7"}
			← {"id":10,"outcome":"not-held","message":"lock not held: unknown lease \"L7\""}
			→ {"id":11,"op":"acquire","process":"p1","key":"k?token=9007199254740993"}
			← {"id":11,"outcome":"ok","lease":"L2","token":"9007199254740993","lease_ms":1}
			→ {"id":12,"op":"acquire","process":"p1","key":"s?session"}
			← {"id":12,"outcome":"ok","lease":"L3","token":3,"lease_ms":1,"lease_left_ms":0,"features":["session-lease"],"bounds":{"loss_ms":1000}}
			→ {"id":13,"op":"acquire","process":"p1","key_b64":"/w=="}
			← {"id":13,"outcome":"ok","lease":"L4","token":4,"lease_ms":1}
		`)
		if s.toy.holder("\xff") == nil {
			t.Errorf("key_b64 was not decoded")
		}
	})
}

func TestRefusals(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"dance"}
			← {"id":2,"outcome":"unsupported","message":"not supported by this lock: unknown op \"dance\""}
			→ {"id":3,"op":"cancel","target":99}
			← {"id":3,"outcome":"ok"}
			→ {"id":4,"op":"acquire","key":"k","mode":"read"}
			← {"id":4,"outcome":"unsupported","message":"not supported by this lock: shared is not claimed"}
			→ {"id":5,"op":"acquire","key":"k","lease_ms":"long"}
			← {"id":5,"outcome":"error","effect":"none","message":"\"long\" is no number of milliseconds"}
			→ this is no request
			→ {"id":6,"op":"acquire","process":"nobody","key":"k"}
			← {"id":6,"outcome":"config","message":"lock misconfigured: no owner"}
			→ {"id":7,"op":"acquire","process":"p1","key":"k?neither"}
			← {"id":7,"outcome":"error","message":"the client returned neither a lease nor an error"}
			→ {"id":8,"op":"acquire","process":"p1","key":"k?panic"}
			← {"id":8,"outcome":"error","message":"panic: toy: as asked"}
			→ {"id":9,"op":"acquire","process":"p1","key":"k?harmless"}
			← {"id":9,"outcome":"unavailable","effect":"none","message":"lock service unavailable: never sent"}
			→ {"id":10,"op":"clock","offset_ms":3600000}
			← {"id":10,"outcome":"ok"}
			→ {"id":11,"op":"clock","offset_ms":1,"rate":2}
			← {"id":11,"outcome":"unsupported","message":"not supported by this lock: rate 2"}
			→ {"id":12,"op":"ping"}
			← {"id":12,"outcome":"ok"}
		`)
		if s.toy.offset != time.Hour {
			t.Errorf("clock: offset %v, want 1h", s.toy.offset)
		}
	})
}

func TestUnclaimed(t *testing.T) {
	converse(t, func(s *session) {
		s.script(`
			→ {"id":1,"op":"hello","versions":[1],"url":"toy:plain"}
			← {"id":1,"outcome":"ok","bounds":{},"version":1,"name":"plain","clock":"monotonic","max_processes":64}
			→ {"id":2,"op":"acquire","process":"p1","key":"k","wait_ms":-1}
			← {"id":2,"outcome":"unsupported","message":"not supported by this lock: wait is not claimed"}
			→ {"id":3,"op":"acquire","process":"p1","key":"k","renew":"auto"}
			← {"id":3,"outcome":"unsupported","message":"not supported by this lock: auto-renew is not claimed"}
			→ {"id":4,"op":"acquire","process":"p1","key":"k","count":2}
			← {"id":4,"outcome":"unsupported","message":"not supported by this lock: permits is not claimed"}
			→ {"id":5,"op":"clock","offset_ms":1}
			← {"id":5,"outcome":"unsupported","message":"not supported by this lock: clock-skew is not claimed"}
			→ {"id":6,"op":"acquire","process":"p1","key":"k?plain"}
			← {"id":6,"outcome":"ok","lease":"L1","lease_ms":1}
			→ {"id":7,"op":"held","process":"p1","lease":"L1"}
			← {"id":7,"outcome":"unsupported","message":"not supported by this lock: hold-check is not claimed"}
			→ {"id":8,"op":"renew","process":"p1","lease":"L1"}
			← {"id":8,"outcome":"unsupported","message":"not supported by this lock: renew is not claimed"}
			→ {"id":9,"op":"write","process":"p1","lease":"L1"}
			← {"id":9,"outcome":"ok"}
		`)
	})
}

func TestPingAsksTheService(t *testing.T) {
	converse(t, func(s *session) {
		s.script(`
			→ {"id":1,"op":"hello","versions":[1],"url":"toy:away"}
			← {"id":1,"outcome":"ok","features":["wait","renew","auto-renew","fencing","loss-signal","hold-check","cancel","clock-skew","permits:3"],"bounds":{"lease_min_ms":1,"lease_max_ms":3600000,"takeover_ms":1.5,"cancel_ms":200,"key_max":512,"clock_rate":0.1,"loss_ratio":0.5},"version":1,"name":"toy 1","class":"lease","hazards":["pause"],"clock":"monotonic","max_processes":64}
			→ {"id":2,"op":"ping"}
			← {"id":2,"outcome":"ok"}
			→ {"id":3,"op":"ping","service":true}
			← {"id":3,"outcome":"unavailable","message":"lock service unavailable: nobody there"}
		`)
	})
}

func TestSection(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"section","process":"p1","key":"a","lease_ms":2000,"work_ms":50}
			← {"event":"entered","lease":"L1","request":2,"lease_ms":2000,"token":1}
			→ {"id":3,"op":"held","process":"p1","lease":"L1"}
			← {"id":3,"outcome":"ok"}
			← {"event":"left","lease":"L1","request":2}
			← {"id":2,"outcome":"ok","token":1}
			→ {"id":4,"op":"section","process":"p1","key":"a?lost=20ms","work_ms":50}
			← {"event":"entered","lease":"L2","request":4,"lease_ms":1,"token":2}
			← {"event":"lost","lease":"L2","reason":"expired"}
			← {"event":"left","lease":"L2","request":4}
			← {"id":4,"outcome":"lost","message":"lock lost: expired\nlock lost","token":2}
			→ {"id":5,"op":"section","process":"p1","key":"a","work_ms":100000}
			← {"event":"entered","lease":"L3","request":5,"lease_ms":1,"token":3}
			→ {"id":6,"op":"section","process":"p2","key":"a"}
			← {"id":6,"outcome":"busy","message":"lock is held by another"}
		`)
		// Cancelled in the work, it still releases.
		s.send(`{"id":7,"op":"cancel","target":5}`)
		for range 3 {
			s.next()
		}
		s.script(`
			→ {"id":8,"op":"acquire","process":"p2","key":"a"}
			← {"id":8,"outcome":"ok","lease":"L4","token":4,"lease_ms":1}
		`)
	})
}

func TestCancelOfAnyOpenRequest(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"acquire","process":"p1","key":"a"}
			← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":1}
			→ {"id":3,"op":"acquire","process":"p2","key":"a","wait_ms":-1}
			→ {"id":4,"op":"write","process":"p1","lease":"L1","work_ms":360000000}
			… 24h
			→ {"id":5,"op":"ping"}
			← {"id":5,"outcome":"ok"}
		`)
		for target := 3; target <= 4; target++ {
			s.send(fmt.Sprintf(`{"id":%d,"op":"cancel","target":%d}`, 10+target, target))
			got := map[string]bool{s.next(): true, s.next(): true}
			if !got[fmt.Sprintf(`{"id":%d,"outcome":"ok"}`, 10+target)] || !got[fmt.Sprintf(`{"id":%d,"outcome":"cancelled","message":"context canceled"}`, target)] {
				t.Errorf("cancel of %d: %v", target, got)
			}
		}
	})
}

func TestOutcomesGoThroughTheWire(t *testing.T) {
	for _, row := range lockspec.Outcomes() {
		got := failure(row.Word.Err())
		if row.Word == lockspec.OK {
			got.Outcome = lockspec.OK
		}
		if got.Outcome != row.Word {
			t.Errorf("%s travels as %s", row.Word, got.Outcome)
		}
		back := reply{Reply: Reply{Outcome: row.Word}}.error(t.Context(), opHeld)
		if lockspec.OutcomeOf(back) != row.Word {
			t.Errorf("%s comes back as %s", row.Word, lockspec.OutcomeOf(back))
		}
	}
}
