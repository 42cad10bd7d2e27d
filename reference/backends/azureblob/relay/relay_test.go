package relay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/reference/backends/interference"
)

// words takes the path for the operation and the key; a key that begins with
// "new" is answered 404, which does not count.
var words = Protocol{
	Classify: func(r *http.Request) (op, key string) {
		op, key, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		return op, key
	},
	Void: func(_ string, reply *http.Response) bool { return reply.StatusCode == http.StatusNotFound },
}

// echo is a server that answers every request with its path, and notes it.
type echo struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newEcho(t *testing.T) *echo {
	e := &echo{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		defer e.mu.Unlock()
		first := !slices.Contains(e.seen, r.URL.Path)
		e.seen = append(e.seen, r.URL.Path)
		w.Header().Set("X-Escaped", r.URL.EscapedPath()+"?"+r.URL.RawQuery)
		if first && strings.Contains(r.URL.Path, "/new") {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write(append([]byte(r.URL.Path), body...))
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *echo) addr() string { return e.Listener.Addr().String() }

func (e *echo) got(path string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.seen, path)
}

func newRelay(t *testing.T, server string) *Relay {
	t.Helper()
	r, err := New(server, words)
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(r.Close(), r.Close())) })
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask sends one request and gives what comes back, silence where nothing does
// for a moment, and end where the connection ended.
func ask(t *testing.T, r *Relay, path, body string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	return askFor(ctx, r, path, body)
}

func askFor(ctx context.Context, r *Relay, path, body string) string {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+r.Addr()+path, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	reply, err := c.Do(req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "silence"
	case err != nil:
		return "end"
	}
	defer reply.Body.Close()
	text, _ := io.ReadAll(reply.Body)
	return string(text)
}

func struck(t *testing.T, s *interference.Struck, want bool) {
	t.Helper()
	limit := time.Second
	if !want {
		limit = 20 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Await(ctx); (err == nil) != want {
		t.Errorf("await: %v, want struck %v", err, want)
	}
}

// TestPasses: a request and its reply go through as they were.
func TestPasses(t *testing.T) {
	e := newEcho(t)
	r := newRelay(t, e.addr())
	if got := ask(t, r, "/renew/a", "body"); got != "/renew/abody" {
		t.Errorf("read %q", got)
	}
	reply, err := http.Get("http://" + r.Addr() + "/renew/a%2Fb%20c?comp=lease&x=%2F")
	must(t, err)
	defer reply.Body.Close()
	if got := reply.Header.Get("X-Escaped"); got != "/renew/a%2Fb%20c?comp=lease&x=%2F" {
		t.Errorf("the server saw %q", got)
	}
}

// TestCounts: a request counts that reached the server, unless its client has
// to ask the same again.
func TestCounts(t *testing.T) {
	r := newRelay(t, newEcho(t).addr())
	for _, path := range []string{"/renew/a", "/renew/b", "/acquire/a", "/acquire/new", "/acquire/new", "/"} {
		ask(t, r, path, "")
	}
	for _, test := range []struct {
		op, key string
		want    int
	}{{"renew", "a", 1}, {"renew", "", 2}, {"", "a", 2}, {"", "", 4}, {"acquire", "new", 1}, {"release", "", 0}} {
		if n := r.Requests(test.op, test.key); n != test.want {
			t.Errorf("%s of %q: %d requests, want %d", test.op, test.key, n, test.want)
		}
	}
}

// TestInterferences: each strikes the request that it is about and no other,
// once.
func TestInterferences(t *testing.T) {
	for _, test := range []struct {
		what    interference.Kind
		reached bool // the server, while in force
		after   bool
	}{
		{interference.DropRequest, false, false},
		{interference.HoldRequest, false, true},
		{interference.DropReply, true, true},
		{interference.HoldReply, true, true},
	} {
		t.Run(string(test.what), func(t *testing.T) {
			e := newEcho(t)
			r := newRelay(t, e.addr())
			s, err := r.Interfere(test.what, "renew", "a", 1)
			must(t, err)
			for _, path := range []string{"/acquire/a", "/renew/b"} {
				if got := ask(t, r, path, ""); got != path {
					t.Errorf("%s: read %q", path, got)
				}
			}
			struck(t, s, false)
			if got := ask(t, r, "/renew/a", ""); got != "silence" {
				t.Errorf("read %q", got)
			}
			struck(t, s, true)
			if got := e.got("/renew/a"); got != test.reached {
				t.Errorf("the server saw it: %v, want %v", got, test.reached)
			}
			must(t, errors.Join(s.Lift(t.Context()), s.Lift(t.Context())))
			if test.after { // what was held outlives its client
				for limit := time.Now().Add(time.Second); !e.got("/renew/a"); time.Sleep(time.Millisecond) {
					if time.Now().After(limit) {
						t.Fatal("it never arrived")
					}
				}
			}
			if got := ask(t, r, "/renew/a", ""); got != "/renew/a" {
				t.Errorf("a second one: read %q", got)
			}
		})
	}
}

// TestHeld: who waits long enough is answered when the rule is lifted.
func TestHeld(t *testing.T) {
	for _, what := range []interference.Kind{interference.HoldRequest, interference.HoldReply} {
		r := newRelay(t, newEcho(t).addr())
		s, err := r.Interfere(what, "", "a", -1)
		must(t, err)
		answer := make(chan string, 1)
		go func() { answer <- askFor(t.Context(), r, "/renew/a", "") }()
		struck(t, s, true)
		must(t, s.Lift(t.Context()))
		if got := <-answer; got != "/renew/a" {
			t.Errorf("%s: read %q", what, got)
		}
	}
}

// TestVoid: a rule about a reply waits for the one that counts.
func TestVoid(t *testing.T) {
	r := newRelay(t, newEcho(t).addr())
	s, err := r.Interfere(interference.DropReply, "acquire", "new", 1)
	must(t, err)
	if got := ask(t, r, "/acquire/new", ""); got != "/acquire/new" {
		t.Errorf("read %q", got)
	}
	struck(t, s, false)
	if got := ask(t, r, "/acquire/new", ""); got != "silence" {
		t.Errorf("read %q", got)
	}
	struck(t, s, true)
}

// TestServerGone: a dead server ends its connections, and the next request goes
// where the server has moved.
func TestServerGone(t *testing.T) {
	first, second := newEcho(t), newEcho(t)
	r := newRelay(t, first.addr())
	ask(t, r, "/ping", "")
	first.Close()
	if got := ask(t, r, "/ping", ""); got != "end" {
		t.Errorf("read %q of a dead server", got)
	}
	r.Move(second.addr())
	if got := ask(t, r, "/here", ""); got != "/here" {
		t.Errorf("read %q", got)
	}
}
