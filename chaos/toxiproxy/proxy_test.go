package toxiproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// server answers every line with "got LINE", and tells what it sees.
type server struct {
	net.Listener
	saw chan string // lines; "end" and "reset" when a connection ended so
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{l, make(chan string, 1000)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.answer(c) })
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return s
}

func (s *server) answer(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		switch {
		case errors.Is(err, io.EOF):
			s.saw <- "end"
			return
		case err != nil:
			s.saw <- "reset"
			return
		}
		s.saw <- strings.TrimSpace(line)
		if _, err := io.WriteString(c, "got "+line); err != nil {
			return
		}
	}
}

// sees waits for what the server must see next.
func (s *server) sees(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-s.saw:
		if got != want {
			t.Fatalf("the server saw %q, want %q", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("the server never saw %q", want)
	}
}

// quiet is how long something must not happen that a wrong proxy would let
// happen at once.
const quiet = 150 * time.Millisecond

func (s *server) seesNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-s.saw:
		t.Fatalf("the server saw %q across a cut", got)
	case <-time.After(quiet):
	}
}

type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{c, bufio.NewReader(c)}
}

func (c *client) says(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
}

func (c *client) hears(t *testing.T, want string) {
	t.Helper()
	got, err := c.in.ReadString('\n')
	if strings.TrimSpace(got) != want || err != nil {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

func (c *client) hearsNothing(t *testing.T) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(quiet))
	defer c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if got, err := c.in.ReadString('\n'); !errors.Is(err, syscall.ETIMEDOUT) && !isTimeout(err) {
		t.Fatalf("heard %q, %v across a cut", got, err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func newProxy(t *testing.T, s *server) *Proxy {
	t.Helper()
	p, err := Listen(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestCut: what is sent in a direction that is cut arrives when it heals, in
// order, on the same connection; the other direction goes on.
func TestCut(t *testing.T) {
	for _, row := range []struct {
		name              string
		cut               Direction
		arrives, answered bool
	}{
		{"requests", Requests, false, false},
		{"replies", Replies, true, false},
		{"both", Both, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newServer(t)
			p := newProxy(t, s)
			c := dial(t, p.Addr())
			c.says(t, "one")
			s.sees(t, "one")
			c.hears(t, "got one")
			heal := p.Cut(row.cut)
			c.says(t, "two")
			c.says(t, "three")
			if row.arrives {
				s.sees(t, "two")
				s.sees(t, "three")
			} else {
				s.seesNothing(t)
			}
			c.hearsNothing(t)
			heal()
			heal()
			if !row.arrives {
				s.sees(t, "two")
				s.sees(t, "three")
			}
			c.hears(t, "got two")
			c.hears(t, "got three")
			c.says(t, "four")
			s.sees(t, "four")
			c.hears(t, "got four")
		})
	}
}

// TestCutAfter: so many bytes pass, and the rest when it heals.
func TestCutAfter(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s)
	c := dial(t, p.Addr())
	c.says(t, "one")
	s.sees(t, "one")
	c.hears(t, "got one")
	heal := p.CutAfter(Requests, 6)
	c.says(t, "a")
	s.sees(t, "a")
	c.hears(t, "got a")
	c.says(t, "bcdefgh") // of which four bytes pass
	s.seesNothing(t)
	heal()
	heal()
	s.sees(t, "bcdefgh")
	c.hears(t, "got bcdefgh")
	if got := p.Passed(); got != int64(len("one\na\nbcdefgh\ngot one\ngot a\ngot bcdefgh\n")) {
		t.Errorf("%d bytes have passed", got)
	}
	unused := p.CutAfter(Both, 1000)
	unused()
	c.says(t, "last")
	c.hears(t, "got last")
}

// TestSlow: what is sent arrives later, or byte by byte, and at once when it has
// healed.
func TestSlow(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s)
	c := dial(t, p.Addr())
	c.says(t, "one")
	c.hears(t, "got one")
	s.sees(t, "one")
	heal := p.Slow(Both, quiet, 0)
	began := time.Now()
	c.says(t, "two")
	c.hears(t, "got two")
	if took := time.Since(began); took < 2*quiet {
		t.Errorf("there and back in %s", took)
	}
	s.sees(t, "two")
	heal()
	heal = p.Slow(Requests, 0, 10)
	began = time.Now()
	c.says(t, "12345")
	s.sees(t, "12345")
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("six bytes at ten a second in %s", took)
	}
	c.hears(t, "got 12345")
	crawl := p.Slow(Both, 0, 1)
	c.says(t, "a long line that would take half a minute")
	s.seesNothing(t)
	heal()
	crawl()
	s.sees(t, "a long line that would take half a minute")
	c.hears(t, "got a long line that would take half a minute")
}

// TestCutsCount: a way is open when the last of its cuts has healed.
func TestCutsCount(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s)
	c := dial(t, p.Addr())
	one, two := p.Cut(Both), p.Cut(Requests)
	c.says(t, "a")
	one()
	s.seesNothing(t)
	two()
	s.sees(t, "a")
	c.hears(t, "got a")
}

// TestACutHoldsTheEnd: neither FIN nor RST crosses a cut, in either direction.
func TestACutHoldsTheEnd(t *testing.T) {
	for _, how := range []string{"FIN", "RST"} {
		t.Run(how, func(t *testing.T) {
			s := newServer(t)
			p := newProxy(t, s)
			c := dial(t, p.Addr())
			c.says(t, "one")
			s.sees(t, "one")
			c.hears(t, "got one")
			heal := p.Cut(Both)
			if how == "RST" {
				_ = c.Conn.(*net.TCPConn).SetLinger(0)
			}
			c.Close()
			s.seesNothing(t)
			heal()
			s.sees(t, "end")
		})
	}
	t.Run("of the server", func(t *testing.T) {
		s := newServer(t)
		p := newProxy(t, s)
		c := dial(t, p.Addr())
		heal := p.Cut(Replies)
		c.says(t, "one")
		s.sees(t, "one")
		_ = c.Conn.(*net.TCPConn).CloseWrite() // the server ends the connection
		c.hearsNothing(t)
		heal()
		c.hears(t, "got one")
		if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("after healing: %v", err)
		}
	})
}

// TestConnectAcrossACut: a connection that is opened during a cut is accepted,
// and goes on when it heals.
func TestConnectAcrossACut(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s)
	heal := p.Cut(Both)
	c := dial(t, p.Addr())
	c.says(t, "one")
	s.seesNothing(t)
	heal()
	s.sees(t, "one")
	c.hears(t, "got one")
}

// TestLoseReply: the request was delivered, its reply never arrives, and the
// client's connection is reset. One reply is lost, of one connection.
func TestLoseReply(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s)
	c, other := dial(t, p.Addr()), dial(t, p.Addr())
	landed, _ := p.LoseReply()
	select {
	case <-landed:
		t.Fatal("landed before anything was said")
	default:
	}
	c.says(t, "one")
	s.sees(t, "one")
	if got, err := c.in.ReadString('\n'); !errors.Is(err, syscall.ECONNRESET) || got != "" {
		t.Errorf("heard %q, %v; want a reset", got, err)
	}
	select {
	case <-landed:
	case <-time.After(10 * time.Second):
		t.Fatal("it never landed")
	}
	if got := <-s.saw; got != "reset" && got != "end" {
		t.Errorf("the server saw %q", got)
	}
	other.says(t, "two")
	other.hears(t, "got two")

	_, cancel := p.LoseReply()
	cancel()
	other.says(t, "three")
	other.hears(t, "got three")
}

// TestReset: every connection ends for both, and new ones are taken.
func TestReset(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s)
	c := dial(t, p.Addr())
	c.says(t, "one")
	s.sees(t, "one")
	c.hears(t, "got one")
	if n := p.Reset(); n != 1 {
		t.Errorf("%d connections were reset", n)
	}
	if _, err := c.in.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client heard %v", err)
	}
	s.sees(t, "reset")
	again := dial(t, p.Addr())
	again.says(t, "two")
	again.hears(t, "got two")
}

// TestRefuse: new connections are refused, old ones go on, and the port is the
// same afterwards.
func TestRefuse(t *testing.T) {
	s := newServer(t)
	p := newProxy(t, s)
	c := dial(t, p.Addr())
	c.says(t, "one")
	c.hears(t, "got one")
	heal, err := p.Refuse()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Refuse(); err == nil {
		t.Error("it refuses twice")
	}
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialled: %v", err)
	}
	c.says(t, "two")
	c.hears(t, "got two")
	if err := heal(); err != nil {
		t.Fatal(err)
	}
	again := dial(t, p.Addr())
	again.says(t, "three")
	again.hears(t, "got three")
}

// TestPoint: new connections go to the other server; one that is not there
// resets them, and Connect says nothing of servers that come later.
func TestPoint(t *testing.T) {
	s, other := newServer(t), newServer(t)
	p := newProxy(t, s)
	c := dial(t, p.Addr())
	c.says(t, "one")
	s.sees(t, "one")
	p.Point(other.Addr().String())
	moved := dial(t, p.Addr())
	moved.says(t, "two")
	other.sees(t, "two")
	c.says(t, "three")
	s.sees(t, "three")

	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	p.Point(gone.Addr().String())
	lost, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer lost.Close()
		_ = lost.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = lost.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a client whose server is not there heard %v", err)
	}
}

// TestNothingIsLeft: a proxy that is closed with connections open, idle, cut and
// ended leaves no goroutine and no connection.
func TestNothingIsLeft(t *testing.T) {
	s := newServer(t)
	before := runtime.NumGoroutine()
	for range 20 {
		p, err := Listen(s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		idle, busy, ended := dial(t, p.Addr()), dial(t, p.Addr()), dial(t, p.Addr())
		busy.says(t, "one")
		busy.hears(t, "got one")
		ended.says(t, "two")
		ended.hears(t, "got two")
		ended.Close()
		p.Cut(Both)
		busy.says(t, "three")
		heldEnd := dial(t, p.Addr())
		heldEnd.says(t, "four")
		heldEnd.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if n := p.Connections(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
		idle.Close()
		busy.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}
