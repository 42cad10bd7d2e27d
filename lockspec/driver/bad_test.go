package driver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// misbehave is a bad driver. It serves correctly, by hand, but for one thing.
func misbehave(how string) {
	answer := func(text string, args ...any) { fmt.Printf(text+"\n", args...) }
	switch how {
	case "dies":
		fmt.Fprintln(os.Stderr, "no module named redlock")
		os.Exit(3)
	case "banner":
		fmt.Println("Welcome to redlock 5")
	case "half a line":
		fmt.Print(`{"id":1,"outc`)
		os.Exit(0)
	case "hangs":
		time.Sleep(time.Hour)
	case "list":
		fmt.Println("[1,2]")
	}
	requests := bufio.NewScanner(os.Stdin)
	for requests.Scan() {
		var q Request
		if err := json.Unmarshal(requests.Bytes(), &q); err != nil {
			panic(err)
		}
		if q.Op == opHello {
			badHello(how, q.ID, answer)
			continue
		}
		if q.Op == opPing {
			answer(`{"id":%d,"outcome":"ok","now_ns":%d}`, q.ID, lie(how))
			continue
		}
		badReply(how, &q, answer)
	}
}

func lie(how string) Nanos {
	if how == "lies later" {
		return now() + Nanos(time.Hour)
	}
	return now()
}

func badHello(how string, id int64, answer func(string, ...any)) {
	switch how {
	case "version 2":
		answer(`{"id":%d,"outcome":"ok","version":2}`, id)
	case "permits":
		answer(`{"id":%d,"outcome":"ok","version":1,"features":["permits:none"]}`, id)
	case "refuses":
		answer(`{"id":%d,"outcome":"config","message":"no table locks"}`, id)
	case "lies":
		answer(`{"id":%d,"outcome":"ok","version":1,"clock":"monotonic","now_ns":%d}`, id, now()-Nanos(time.Hour))
	case "no clock":
		answer(`{"id":%d,"outcome":"ok","version":1}`, id)
	case "cancels":
		answer(`{"id":%d,"outcome":"ok","version":1,"features":["cancel"],"bounds":{"cancel_ms":10000},"clock":"monotonic","now_ns":%d}`, id, now())
	default:
		answer(`{"id":%d,"outcome":"ok","version":1,"clock":"monotonic","now_ns":"%d"}`, id, now())
	}
	if how == "stops reading" {
		time.Sleep(time.Hour)
	}
}

func badReply(how string, q *Request, answer func(string, ...any)) {
	switch how {
	case "second reply":
		answer(`{"id":%d,"outcome":"busy"}`, q.ID)
		answer(`{"id":%d,"outcome":"ok","lease":"L1"}`, q.ID)
	case "stranger":
		answer(`{"id":123456,"outcome":"ok"}`)
		answer(`{"id":%d,"outcome":"busy"}`, q.ID)
	case "prints":
		fmt.Println("DEBUG acquiring", q.Key)
		answer(`{"id":%d,"outcome":"busy"}`, q.ID)
	case "word":
		answer(`{"id":%d,"outcome":"fine"}`, q.ID)
	case "no lease":
		answer(`{"id":%d,"outcome":"ok"}`, q.ID)
	case "rounds":
		answer(`{"id":%d,"outcome":"ok","lease":"L1","token":9007199254740993}`, q.ID)
	case "stray event":
		answer(`{"event":"lost","lease":"L9"}`)
		answer(`{"id":%d,"outcome":"busy"}`, q.ID)
	case "strange event":
		answer(`{"id":%d,"outcome":"ok","lease":"L1"}`, q.ID)
		answer(`{"event":"sneezed","lease":"L1"}`)
	case "huge line":
		answer("%s", strings.Repeat("x", longestLine+1))
		time.Sleep(time.Hour)
	case "closes stdout":
		os.Stdout.Close()
		time.Sleep(time.Hour)
	case "leaves":
		answer(`{"id":%d,"outcome":"busy"}`, q.ID)
		fmt.Print(`{"event":"lost","le`)
		os.Exit(4)
	case "ok after lost":
		if q.Op != opAcquire {
			answer(`{"event":"lost","lease":"L1","reason":"evicted"}`)
		}
		answer(`{"id":%d,"outcome":"ok","lease":"L1","lease_ms":1000}`, q.ID)
	case "cancels":
		if q.Op == opCancel {
			answer(`{"id":%d,"outcome":"cancelled","message":"as you wish"}`, q.Target)
			answer(`{"id":%d,"outcome":"ok"}`, q.ID)
		}
	case "stays":
		answer(`{"id":%d,"outcome":"ok"}`, q.ID) // shutdown too
	default:
		answer(`{"id":%d,"outcome":"busy"}`, q.ID)
	}
}

func bad(how string) Config {
	return Config{Name: "n1", Env: []string{envBad + "=" + how, noRaceSleep}}
}

// The race detector makes a program sleep for a second before it exits.
const noRaceSleep = "GORACE=atexit_sleep_ms=0"

func TestUnusableDrivers(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		want   []string
	}{
		{"no such command", Config{Name: "n1", Command: []string{"/nonexistent/driver"}}, []string{"cannot start", "/nonexistent/driver"}},
		{"dies", bad("dies"), []string{"the driver is gone", "exit status 3", "no module named redlock"}},
		{"banner", bad("banner"), []string{"no JSON", `"Welcome to redlock 5"`, "stderr"}},
		{"half a line", bad("half a line"), []string{`"{\"id\":1,\"outc"`}},
		{"list", bad("list"), []string{"no reply and no event: [1,2]"}},
		{"hangs", bad("hangs"), []string{"no reply to hello within 300ms"}},
		{"version 2", bad("version 2"), []string{"version 2", "want 1"}},
		{"permits", bad("permits"), []string{`"permits:none"`}},
		{"refuses", bad("refuses"), []string{"config", "no table locks"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "hangs" {
				c.config.HelloLimit = 300 * time.Millisecond
			}
			n, err := Start(within(t), c.config)
			if err == nil {
				n.Close()
				t.Fatal("it started")
			}
			var b *Broken
			if !errors.As(err, &b) || b.Node != "n1" {
				t.Errorf("%v is no *Broken of n1", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if refused := errors.Is(err, lockspec.ErrConfig); refused != (c.name == "refuses") {
				t.Errorf("%v matches ErrConfig: %v", err, refused)
			}
		})
	}
}

// What breaks the protocol in mid-run is quoted, and the rest goes on.
func TestViolations(t *testing.T) {
	for _, c := range []struct {
		how     string
		want    string
		outcome lockspec.Outcome
	}{
		{"second reply", "a second reply to request", lockspec.Busy},
		{"stranger", "a reply to request 123456, which was not sent", lockspec.Busy},
		{"prints", `no JSON: "DEBUG acquiring k"`, lockspec.Busy},
		{"word", `"fine" is no outcome`, lockspec.Failed},
		{"no lease", "ok without a lease id", lockspec.Failed},
		{"rounds", "token 9007199254740993 is a number above 2^53; send it as a decimal string", lockspec.Failed},
		{"stray event", `event lost for lease "L9", which no reply named`, lockspec.Busy},
		{"strange event", `event "sneezed", which is none`, lockspec.OK},
		{"huge line", "a line of more than 4194304 bytes", lockspec.Unavailable},
	} {
		t.Run(c.how, func(t *testing.T) {
			broken := make(chan error, 8)
			config := bad(c.how)
			config.OnBroken = func(err error) { broken <- err }
			n := startToy(t, config)
			_, err := n.Client("p1").Acquire(within(t), lockspec.Request{Key: "k"})
			if got := lockspec.OutcomeOf(err); got != c.outcome {
				t.Errorf("acquire: %v, want %s", err, c.outcome)
			}
			select {
			case err := <-broken:
				if !strings.Contains(err.Error(), c.want) || !strings.Contains(n.Err().Error(), c.want) {
					t.Errorf("%q does not say %q", err, c.want)
				}
			case <-within(t).Done():
				t.Fatal("nothing was reported")
			}
			if c.how == "huge line" {
				<-n.Exited()
			} else if err := n.Ping(within(t), false); err != nil {
				t.Errorf("it does not go on: %v", err)
			}
		})
	}
}

func TestLossPrecedesTheReplyAfterIt(t *testing.T) {
	n := startToy(t, bad("ok after lost"))
	lease := acquire(t, n, "p1", "k")
	if err := lease.(lockspec.HoldChecker).Held(within(t)); err != nil {
		t.Errorf("held: %v; what a driver says is judged elsewhere", err)
	}
	select {
	case <-lease.(lockspec.Notifier).Lost():
	default:
		t.Error("the reply overtook the loss")
	}
	if cause := lease.(lockspec.Notifier).Cause(); !errors.Is(cause, lockspec.ErrLost) || !strings.Contains(cause.Error(), "evicted") {
		t.Errorf("cause %v", cause)
	}
}

func TestDriverThatLeaves(t *testing.T) {
	for _, how := range []string{"leaves", "closes stdout"} {
		t.Run(how, func(t *testing.T) {
			exits := make(chan error, 1)
			config := bad(how)
			config.OnExit = func(err error) { exits <- err }
			n := startToy(t, config)
			client := n.Client("p1")
			_, err := client.Acquire(within(t), lockspec.Request{Key: "k"})
			if how == "leaves" && lockspec.OutcomeOf(err) != lockspec.Busy {
				t.Errorf("the reply before the end: %v, want busy", err)
			}
			select {
			case err := <-exits:
				if how == "leaves" && !strings.Contains(err.Error(), "exit status 4") {
					t.Errorf("OnExit(%v)", err)
				}
			case <-within(t).Done():
				t.Fatal("OnExit was not called")
			}
			<-n.Exited()
			_, err = client.Acquire(within(t), lockspec.Request{Key: "k"})
			if b := (*Broken)(nil); lockspec.OutcomeOf(err) != lockspec.Unavailable || !lockspec.NoEffect(err) || !errors.As(err, &b) {
				t.Errorf("acquire afterwards: %v", err)
			}
			if n.Err() != nil {
				t.Errorf("half a line at the end is no violation: %v", n.Err())
			}
		})
	}
}

func TestClockThatLies(t *testing.T) {
	for _, how := range []string{"lies", "lies later", "no clock"} {
		t.Run(how, func(t *testing.T) {
			notes := make(chan string, 8)
			config := bad(how)
			config.PingEvery = 5 * time.Millisecond
			config.OnNote = func(text string) { notes <- text }
			n := startToy(t, config)
			if how == "no clock" {
				if err := n.Ping(within(t), false); err != nil || n.ClockProven() {
					t.Errorf("a clock that is not claimed is proven (%v)", err)
				}
				return
			}
			select {
			case note := <-notes:
				if !strings.Contains(note, "not believed") || !strings.Contains(note, "now_ns") {
					t.Errorf("note %q", note)
				}
			case <-within(t).Done():
				t.Fatal("no note")
			}
			if n.ClockProven() {
				t.Error("it is still believed")
			}
		})
	}
}

// A reply that cancel brought about decides, and still matches the context.
func TestCancelledReply(t *testing.T) {
	n := startToy(t, bad("cancels"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := n.Client("p1").Acquire(ctx, lockspec.Request{Key: "k", Wait: lockspec.NoLimit})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "as you wish") {
		t.Errorf("acquire: %v", err)
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	n := startToy(t, bad("stops reading"))
	client := n.Client("p1")
	for range 100 { // more than a pipe takes
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := client.Acquire(ctx, lockspec.Request{Key: strings.Repeat("k", 10_000)})
		cancel()
		if lockspec.OutcomeOf(err) != lockspec.Cancelled {
			t.Fatalf("acquire: %v", err)
		}
	}
	// On a busy machine the time of some was up before they were sent.
	sent, limit := n.current().open(), within(t)
	open := make(chan error, 1)
	go func() {
		_, err := client.Acquire(limit, lockspec.Request{Key: "k"})
		open <- err
	}()
	for n.current().open() == sent && limit.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if err := n.Kill(); err != nil {
		t.Error(err)
	}
	if err := <-open; lockspec.OutcomeOf(err) != lockspec.Unavailable || lockspec.NoEffect(err) {
		t.Errorf("open call: %v, want unavailable", err)
	}
}

func (c *conn) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

func TestShutdownOfADriverThatStays(t *testing.T) {
	n := startToy(t, bad("stays"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := n.Shutdown(ctx, true); err == nil || !strings.Contains(err.Error(), "did not exit") {
		t.Errorf("shutdown: %v", err)
	}
	<-n.Exited()
}
