package driver

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

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
