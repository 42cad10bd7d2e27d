package driver

import (
	"context"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
