package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// session is a raw conversation with Serve, in a synctest bubble.
type session struct {
	t     *testing.T
	toy   *toy
	in    *io.PipeWriter
	lines chan string
	ended chan error
}

// converse runs talk with a Serve of the toy, which has said nothing yet.
func converse(t *testing.T, talk func(*session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		requests, in := io.Pipe()
		out, replies := io.Pipe()
		s := &session{t: t, in: in, lines: make(chan string, 1024), ended: make(chan error, 1)}
		go func() {
			s.ended <- Serve(requests, replies, func(ctx context.Context, at Target) (Lock, error) {
				lock, err := openToy(ctx, at)
				s.toy, _ = lock.(*toy)
				return lock, err
			})
			replies.Close()
		}()
		go func() {
			defer close(s.lines)
			for incoming := newLines(out); ; {
				line, err := incoming.next()
				if err != nil {
					return
				}
				s.lines <- string(line)
			}
		}()
		defer in.Close()
		talk(s)
	})
}

const helloLine = `{"id":1,"op":"hello","versions":[1],"node":"n1","incarnation":1}`

// greeted is converse after a hello.
func greeted(t *testing.T, talk func(*session)) {
	t.Helper()
	converse(t, func(s *session) {
		s.send(helloLine)
		s.next()
		talk(s)
	})
}

func (s *session) send(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatalf("send %s: %v", line, err)
	}
}

var stamps = regexp.MustCompile(`,?"(now|sent|driver)_ns":\d+`)

// next is the next line, without its stamps.
func (s *session) next() string {
	s.t.Helper()
	select {
	case line, more := <-s.lines:
		if !more {
			return "end"
		}
		return stamps.ReplaceAllString(line, "")
	case <-time.After(time.Hour):
		s.t.Fatal("no further line")
		return ""
	}
}

// script sends the lines that begin with → and wants those that begin with ←,
// in this order; "… 20ms" waits.
func (s *session) script(text string) {
	s.t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		mark, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch mark {
		case "→":
			s.send(rest)
		case "…":
			d, err := time.ParseDuration(rest)
			if err != nil {
				s.t.Fatal(err)
			}
			time.Sleep(d)
		case "←":
			if got := s.next(); got != rest {
				s.t.Fatalf("got  %s\nwant %s", got, rest)
			}
		default:
			s.t.Fatalf("script: %s", line)
		}
	}
}

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

func TestShutdown(t *testing.T) {
	for _, release := range []bool{true, false} {
		greeted(t, func(s *session) {
			s.script(`
				→ {"id":2,"op":"acquire","process":"p1","key":"a"}
				← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":1}
				→ {"id":3,"op":"acquire","process":"p1","key":"b?lost=1ms"}
				← {"id":3,"outcome":"ok","lease":"L2","token":2,"lease_ms":1}
				← {"event":"lost","lease":"L2","reason":"expired"}
				→ {"id":4,"op":"write","process":"p1","lease":"L1","work_ms":100000}
			`)
			synctest.Wait()
			s.send(fmt.Sprintf(`{"id":5,"op":"shutdown","release":%t}`, release))
			s.script(`
				← {"id":4,"outcome":"cancelled","message":"context canceled"}
				← {"id":5,"outcome":"ok"}
				← end
			`)
			if err := <-s.ended; err != nil {
				t.Error(err)
			}
			if held := s.toy.holder("a") != nil; held == release {
				t.Errorf("release %v: held afterwards: %v", release, held)
			}
			if closed := s.toy.gaveUp() == 1; closed != release {
				t.Errorf("release %v: client closed: %v", release, closed)
			}
		})
	}
}

func TestEndOfInputReleasesNothing(t *testing.T) {
	greeted(t, func(s *session) {
		s.script(`
			→ {"id":2,"op":"acquire","process":"p1","key":"a"}
			← {"id":2,"outcome":"ok","lease":"L1","token":1,"lease_ms":1}
			→ {"id":3,"op":"acquire","process":"p2","key":"a?deaf=1h"}
			→ {"id":4,"op":"write","process":"p1","lease":"L1","work_ms":100000}
		`)
		start := time.Now()
		s.in.Close()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		if s.toy.holder("a") == nil || s.toy.gaveUp() != 0 {
			t.Error("it released or closed something")
		}
		time.Sleep(2 * time.Hour) // the deaf call comes back
	})
}

// An output that nobody reads must not stop the reading of the input.
func TestReadsWhileNobodyReadsItsReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, in := io.Pipe()
		_, replies := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- Serve(requests, replies, openToy) }()
		if _, err := io.WriteString(in, helloLine+"\n"); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if _, err := fmt.Fprintf(in, `{"id":%d,"op":"ping"}`+"\n", i+2); err != nil {
				t.Fatal(err)
			}
		}
		in.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		replies.CloseWithError(io.ErrClosedPipe)
	})
}

func TestBrokenOutputEndsServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, in := io.Pipe()
		out, replies := io.Pipe()
		out.Close()
		ended := make(chan error, 1)
		go func() { ended <- Serve(requests, replies, openToy) }()
		_, _ = io.WriteString(in, helloLine+"\n")
		if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve: %v", err)
		}
		in.Close()
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
