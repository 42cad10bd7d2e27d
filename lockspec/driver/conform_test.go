package driver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
)

// envConform makes the test binary a driver for a served memory backend with
// one thing wrong with it; "nothing" is wrong with the right one.
const envConform = "LOCKCHECK_TEST_CONFORM"

type served struct{ engine *reference.Engine }

func (l served) Describe() lockspec.Description {
	return l.engine.Client().(lockspec.Describer).Describe()
}
func (l served) Client(string) (lockspec.Client, error) { return l.engine.Client(), nil }
func (l served) Close() error                           { return l.engine.Close() }

func openServed(_ context.Context, at Target) (Lock, error) {
	e, err := reference.New(memory.Dial(at.Endpoints[0], nil), nil)
	return served{e}, err
}

// spoiler stands between a right driver and its harness, and spoils some of
// the lines.
type spoiler struct {
	how      string
	requests *bufio.Scanner // of the harness
	forward  *io.PipeWriter // to the right driver
	out      *os.File

	mu      sync.Mutex
	asked   map[int64]Request
	holders map[string]string // key: its process
	event   []byte            // held back
	ended   bool              // the harness's end of stdin
	replied chan int64
}

func misconform(how string) {
	in, forward := io.Pipe()
	replies, backward := io.Pipe()
	out := os.Stdout
	os.Stdout = os.Stderr
	s := &spoiler{how: how, requests: bufio.NewScanner(os.Stdin), forward: forward, out: out,
		asked: map[int64]Request{}, holders: map[string]string{}, replied: make(chan int64, 4096)}
	s.requests.Buffer(nil, longestLine)
	go s.read()
	go func() {
		err := Serve(in, backward, openServed)
		if s.stays() {
			time.Sleep(time.Minute)
		}
		backward.Close()
		time.Sleep(20 * time.Millisecond) // the last replies are on their way
		if err != nil {
			os.Exit(exitUsage)
		}
		os.Exit(0)
	}()
	for lines := bufio.NewScanner(replies); lines.Scan(); {
		s.reply(lines.Bytes())
	}
	time.Sleep(time.Minute)
}

// read passes requests on.
func (s *spoiler) read() {
	for s.requests.Scan() {
		var q Request
		_ = json.Unmarshal(s.requests.Bytes(), &q)
		s.mu.Lock()
		s.asked[q.ID] = q
		holder := s.holders[q.Key]
		s.mu.Unlock()
		switch {
		case s.how == "dies" && q.Op == "sing":
			fmt.Fprintln(os.Stderr, "KeyError: sing")
			os.Exit(1)
		case s.how == "waits in hello" && q.Op == opHello && !reachable(q.Endpoints[0]):
			s.write(`{"id":%d,"outcome":"unavailable","message":"cannot connect"}`, q.ID)
			continue
		case s.how == "one owner" && q.Op == opAcquire && q.Process == holder:
			s.write(`{"id":%d,"outcome":"ok","lease":"again%d","token":9000000000000000,"lease_ms":1000}`, q.ID, q.ID)
			continue
		case s.how == "session" && q.LeaseMS != 0:
			s.write(`{"id":%d,"outcome":"config","message":"a session has no lease"}`, q.ID)
			continue
		case s.how == "does not work" && q.Op == opWrite:
			q.WorkMS = 0
		}
		line, _ := json.Marshal(q)
		_, _ = s.forward.Write(append(line, '\n'))
		for id := int64(0); s.how == "one at a time" && id != q.ID; {
			id = <-s.replied
		}
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.forward.Close()
}

func (s *spoiler) stays() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.how == "stays" && s.ended
}

func reachable(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// reply passes a line of the right driver on.
func (s *spoiler) reply(line []byte) {
	r, e, err := decode(line)
	if err != nil {
		panic(err)
	}
	if e != nil {
		s.pass(line, e)
		return
	}
	s.mu.Lock()
	q := s.asked[r.ID]
	if q.Op == opAcquire && r.Outcome == lockspec.OK {
		s.holders[q.Key] = q.Process
	}
	s.mu.Unlock()
	s.spoil(&q, r)
	text, _ := json.Marshal(r)
	s.write("%s", text)
	if s.how == "twice" && q.Op == opRelease {
		s.write("%s", text)
	}
	if s.event != nil && (r.Outcome == lockspec.Lost || r.Outcome == lockspec.NotHeld) {
		s.write("%s", s.event)
		s.event = nil
	}
	s.replied <- r.ID
}

// pass passes an event on.
func (s *spoiler) pass(line []byte, e *Event) {
	switch {
	case s.how == "late loss" && e.Event == eventLost:
		s.event = append([]byte(nil), line...)
	case s.how == "never left" && e.Event == eventLeft:
	case s.how == "one token" && e.Token > 0:
		e.Token = 1
		text, _ := json.Marshal(e)
		s.write("%s", text)
	default:
		s.write("%s", line)
	}
}

// spoil changes a reply.
func (s *spoiler) spoil(q *Request, r *Reply) {
	granted := q.Op == opAcquire && r.Outcome == lockspec.OK
	switch {
	case s.how == "session" && granted:
		r.LeaseMS = 0
	case s.how == "session" && q.Op == opHello:
		r.Class, r.Hazards = lockspec.Session, nil
	case s.how == "prints" && granted:
		s.write("acquired %s", q.Key)
	case s.how == "timeout for busy" && r.Outcome == lockspec.Busy:
		r.Outcome = lockspec.Timeout
	case s.how == "knows every lease" && strings.Contains(r.Message, "unknown lease"):
		r.Outcome, r.Message = lockspec.OK, ""
	case s.how == "promises double" && granted:
		r.LeaseMS *= 2
	case s.how == "one token" && r.Token > 0:
		r.Token = 1
	case s.how == "says yes" && q.Op == opHeld && !strings.Contains(r.Message, "unknown lease"):
		r.Outcome, r.Message = lockspec.OK, ""
	}
}

func (s *spoiler) write(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// conformOn tries a driver of these tests.
func conformOn(t *testing.T, how string) *Conformance {
	t.Helper()
	data, admin, err := memory.Listen()
	if err != nil {
		t.Fatal(err)
	}
	admin.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = memory.Serve(ctx, data, nil, nil) })
	t.Cleanup(func() { cancel(); all.Wait() })
	found, err := Conform(t.Context(), Config{Env: []string{envConform + "=" + how, noRaceSleep}, Endpoints: []string{data.Addr().String()}},
		&ConformOptions{Workers: 8})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestConform: each bad driver breaks its rule and no other, and is told what
// it did.
func TestConform(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: each driver is tried for some seconds")
	}
	for _, test := range []struct {
		how, rule, line, says string
	}{
		{"nothing", "", "", ""},
		{"one token", "hello", `"token":1`, "has token 1 after 1"},
		{"twice", "a", `"outcome":"ok"`, "a second reply to"},
		{"late loss", "b", `"event":"lost"`, "already knew of it"},
		{"says yes", "b", `"outcome":"ok"`, "held was asked after the event lost"},
		{"prints", "c", "acquired lockcheck-", "no JSON"},
		{"one at a time", "d", `"op":"`, ""},
		{"stays", "e", "", "still runs"},
		{"dies", "f", "KeyError: sing", "exit status 1"},
		{"timeout for busy", "g", `"outcome":"timeout"`, "without a wait was answered timeout"},
		{"one owner", "h", `"lease":"again`, "granted a key that it holds"},
		{"knows every lease", "j", `"no such lease"`, "right is not-held"},
		{"waits in hello", "j", "cannot connect", "because the service is away"},
		{"promises double", "k", `"lease_ms":2000`, "before the lease quoted was over"},
		{"does not work", "l", `"outcome":"ok"`, "200ms of work was answered after"},
		{"never left", "m", `"outcome":"ok"`, "without entered and left"},
	} {
		t.Run(test.how, func(t *testing.T) {
			t.Parallel()
			checkTrials(t, conformOn(t, test.how), test.rule, test.line, test.says, also[test.how])
		})
	}
}

// also are the other rules that a bad driver breaks by the same fault.
var also = map[string]string{
	"says yes":      "l", // held is ok after a release too
	"one at a time": "e", // nor does it see the end of stdin while it waits
}

func checkTrials(t *testing.T, c *Conformance, rule, line, says, also string) {
	t.Helper()
	for _, got := range c.Trials {
		want := RuleKept
		switch {
		case got.Rule == rule:
			want = RuleBroken
			if f := got.Faults; len(f) == 0 || !strings.Contains(f[0].Line, line) || !strings.Contains(f[0].What, says) || f[0].Do == "" {
				t.Errorf("rule %s: it does not say %q of a line with %q: %+v", rule, says, line, f)
			}
		case got.Rule == also:
			continue
		case got.Rule == "i":
			want = RuleNotTried
		}
		if got.Standing != want {
			t.Errorf("rule %s is %s, want %s: %+v", got.Rule, got.Standing, want, got)
		}
		if rule == "" && got.Rule != "i" && len(got.Gaps) > 0 {
			t.Errorf("rule %s: not tried with a right driver: %q", got.Rule, got.Gaps)
		}
	}
}

// A session is asked for no lease, which it would have to refuse.
func TestConformSession(t *testing.T) {
	for _, got := range conformOn(t, "session").Trials {
		if got.Standing == RuleBroken || strings.Contains(strings.Join(got.Gaps, "; "), "not granted") {
			t.Errorf("rule %s: %+v %q", got.Rule, got.Faults, got.Gaps)
		}
	}
}

// A lock that claims nothing leaves gaps that say why, and breaks no rule but
// that the toy's tokens are claimed to be none.
func TestConformPlain(t *testing.T) {
	found, err := Conform(t.Context(), Config{URL: "toy:plain", Env: []string{noRaceSleep}}, &ConformOptions{Workers: 8})
	if err != nil {
		t.Fatal(err)
	}
	gaps := map[string]string{"b": "loss-signal is not claimed", "j": "no --endpoint", "e": "do not exclude each other"}
	for _, got := range found.Trials {
		if (got.Standing == RuleBroken) != (got.Rule == "hello") {
			t.Errorf("rule %s: %+v", got.Rule, got.Faults)
		}
		if want := gaps[got.Rule]; !strings.Contains(strings.Join(got.Gaps, "; "), want) {
			t.Errorf("rule %s: gaps %q, want %q", got.Rule, got.Gaps, want)
		}
	}
}

func TestConformUnusable(t *testing.T) {
	for _, test := range []struct {
		name   string
		config Config
		says   []string
	}{
		{"no such command", Config{Command: []string{"/nonexistent/driver"}}, []string{"/nonexistent/driver"}},
		{"dies", bad("dies"), []string{"exit status 3", "no module named redlock"}},
		{"half a line", bad("half a line"), []string{"it ended before it answered hello"}},
		{"refuses", bad("refuses"), []string{"no table locks"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Conform(t.Context(), test.config, nil)
			if err == nil {
				t.Fatal("no error")
			}
			for _, says := range test.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q does not say %q", err, says)
				}
			}
		})
	}
}
