package relay

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference/backends/interference"
)

// echo is a server that answers every command with its words, and notes them.
type echo struct {
	net.Listener
	mu   sync.Mutex
	seen []string
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go e.serve(c)
		}
	}()
	return e
}

func (e *echo) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		line := in.Text()
		e.mu.Lock()
		e.seen = append(e.seen, line)
		e.mu.Unlock()
		if strings.HasPrefix(line, "unknown") {
			line = "-NOSCRIPT no such script"
		} else {
			line = "+" + line
		}
		if _, err := io.WriteString(c, line+"\r\n"); err != nil {
			return
		}
	}
}

func (e *echo) got() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.seen)
}

// lines is a protocol whose requests and replies are lines. The first word of a
// request is the operation and the second the key.
type lines struct{}

func (lines) Request(in *bufio.Reader) (r Request, err error) {
	line, err := in.ReadString('\n')
	r.Raw = []byte(line)
	if args := strings.Fields(line); len(args) > 1 {
		r.Op, r.Key = args[0], args[1]
	}
	return r, err
}

func (lines) Reply(in *bufio.Reader) (Reply, error) {
	line, err := in.ReadString('\n')
	return Reply{Raw: []byte(line), Again: strings.HasPrefix(line, "-NOSCRIPT")}, err
}

func newRelay(t *testing.T, server string) *Relay {
	t.Helper()
	r, err := New(server, func() Protocol { return lines{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// client is one connection through a relay.
type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, r *Relay) client {
	t.Helper()
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return client{c, bufio.NewReader(c)}
}

func (c client) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\r\n"); err != nil {
		t.Fatal(err)
	}
}

// read gives what comes next, "silence" if nothing does for a moment, and
// "end" where the connection ended.
func (c client) read() string {
	_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	line, err := c.in.ReadString('\n')
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return "silence"
	case err != nil:
		return "end"
	}
	return strings.TrimSpace(line)
}

func (c client) expect(t *testing.T, want string) {
	t.Helper()
	if got := c.read(); got != want {
		t.Errorf("read %q, want %q", got, want)
	}
}

func interfere(t *testing.T, r *Relay, what interference.Kind, op, key string, times int) *interference.Struck {
	t.Helper()
	s, err := r.Interfere(what, op, key, times)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func struck(t *testing.T, s *interference.Struck, want bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	if !want {
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	}
	defer cancel()
	if err := s.Await(ctx); (err == nil) != want {
		t.Errorf("await: %v, want struck %v", err, want)
	}
}

func TestCounts(t *testing.T) {
	e := newEcho(t)
	r := newRelay(t, e.Addr().String())
	c := dial(t, r)
	for _, line := range []string{"renew a", "renew b", "acquire a", "ping", "unknown a"} {
		c.send(t, line)
		c.read()
	}
	for _, test := range []struct {
		op, key string
		want    int
	}{{"renew", "a", 1}, {"renew", "", 2}, {"", "a", 2}, {"", "", 3}, {"release", "", 0}, {"unknown", "", 0}} {
		if n := r.Requests(test.op, test.key); n != test.want {
			t.Errorf("%s of %q: %d requests, want %d", test.op, test.key, n, test.want)
		}
	}
}

// TestInterferences: each strikes the request that it is about and no other,
// and holds back what follows on the same connection.
func TestInterferences(t *testing.T) {
	for _, test := range []struct {
		what    interference.Kind
		reached bool // the server, while in force
		after   string
	}{
		{interference.DropRequest, false, "silence"},
		{interference.HoldRequest, false, "+renew a 2"},
		{interference.DropReply, true, "silence"},
		{interference.HoldReply, true, "+renew a 2"},
	} {
		t.Run(string(test.what), func(t *testing.T) {
			e := newEcho(t)
			r := newRelay(t, e.Addr().String())
			s := interfere(t, r, test.what, "renew", "a", 1)
			c, other := dial(t, r), dial(t, r)
			for _, line := range []string{"acquire a", "renew b"} {
				c.send(t, line)
				c.expect(t, "+"+line)
			}
			struck(t, s, false)
			c.send(t, "renew a 2")
			struck(t, s, true)
			c.expect(t, "silence")
			if got := slices.Contains(e.got(), "renew a 2"); got != test.reached {
				t.Errorf("the server saw it: %v, want %v", got, test.reached)
			}
			c.send(t, "renew b 2")
			c.expect(t, "silence")
			other.send(t, "renew a 3") // once is once, and another connection
			other.expect(t, "+renew a 3")
			if err := errors.Join(s.Lift(t.Context()), s.Lift(t.Context())); err != nil {
				t.Error(err)
			}
			c.expect(t, test.after)
			if test.after != "silence" {
				c.expect(t, "+renew b 2")
			}
		})
	}
}

func TestAllUntilLifted(t *testing.T) {
	e := newEcho(t)
	r := newRelay(t, e.Addr().String())
	s := interfere(t, r, interference.HoldReply, "", "a", -1)
	one, other := dial(t, r), dial(t, r)
	one.send(t, "acquire a")
	other.send(t, "renew a")
	one.expect(t, "silence")
	other.expect(t, "silence")
	if err := s.Lift(t.Context()); err != nil {
		t.Fatal(err)
	}
	one.expect(t, "+acquire a")
	other.expect(t, "+renew a")
	one.send(t, "acquire a 2")
	one.expect(t, "+acquire a 2")
}

// TestHeldRequestOutlivesItsClient: packets on their way do not turn back when
// their sender dies.
func TestHeldRequestOutlivesItsClient(t *testing.T) {
	e := newEcho(t)
	r := newRelay(t, e.Addr().String())
	s := interfere(t, r, interference.HoldRequest, "acquire", "", 1)
	c := dial(t, r)
	c.send(t, "acquire a")
	struck(t, s, true)
	c.Close()
	if err := s.Lift(t.Context()); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Second); !slices.Contains(e.got(), "acquire a"); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it never arrived")
		}
	}
}

// TestServerGone: a dead server ends its connections, and the next one goes
// where the server has moved.
func TestServerGone(t *testing.T) {
	first, second := newEcho(t), newEcho(t)
	r := newRelay(t, first.Addr().String())
	c := dial(t, r)
	c.send(t, "ping")
	c.expect(t, "+ping")
	first.Close()
	c.send(t, "ping") // its connection lives until the server closes it
	c.expect(t, "+ping")
	dial(t, r).expect(t, "end")
	r.Move(second.Addr().String())
	c = dial(t, r)
	c.send(t, "here")
	c.expect(t, "+here")
}

func TestBadRules(t *testing.T) {
	r := newRelay(t, "127.0.0.1:1")
	for _, test := range []struct {
		what  interference.Kind
		times int
	}{{"drop", 1}, {interference.DropReply, 0}} {
		if _, err := r.Interfere(test.what, "", "", test.times); !errors.Is(err, lockspec.ErrConfig) {
			t.Errorf("%s %d times: %v", test.what, test.times, err)
		}
	}
}
