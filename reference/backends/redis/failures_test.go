package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
)

// TestRefusals: what a real server refuses, and what is said then.
func TestRefusals(t *testing.T) {
	l := newLab(t, nil)
	l.do(t, "ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+ping")
	l.do(t, "RPUSH", "lock:{list}", "x")
	for _, test := range []struct {
		what    string
		o       Options
		key     string
		setting string
	}{
		{"wrong password", Options{Username: "reader", Password: "hunter2"}, "k", "USER:PASSWORD"},
		{"unknown user", Options{Username: "nobody", Password: "hunter2"}, "k", "USER:PASSWORD"},
		{"user that may only read", Options{Username: "reader", Password: "pw"}, "k", "USER"},
		{"database that there is not", Options{DB: 1000}, "k", "DB"},
		{"key that holds a list", Options{}, "list", ""},
		{"key that holds a list, without fencing", Options{Unfenced: true}, "list", ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			b := backend(t, l.Addr(), &test.o)
			begin := time.Now()
			err := attempt(t, b, claim(test.key, "a"))
			expect(t, test.what, err, lockspec.ErrConfig)
			expect(t, test.what, err, reference.ErrNotSent)
			var why *refusal.Error
			if !errors.As(err, &why) || why.Setting != test.setting {
				t.Errorf("it blames %+v, want %q", why, test.setting)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("it tells the password: %v", err)
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	if n := l.do(t, "LLEN", "lock:{list}"); n != int64(1) {
		t.Errorf("the list was touched: %v", n)
	}
}

func TestNoPassword(t *testing.T) {
	l := newLab(t, &containers.RedisOptions{Password: "hunter2"})
	expect(t, "no password", attempt(t, backend(t, l.Addr(), nil), claim("k", "a")), lockspec.ErrConfig)
	grant(t, backend(t, l.Addr(), &Options{Password: "hunter2"}), claim("k", "a"))
}

// TestUnreachable: nothing was sent, so nothing is in doubt, and nobody retries
// behind the engine's back.
func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := silent.Addr().String()
	must(t, silent.Close())
	begin := time.Now()
	err = attempt(t, backend(t, addr, nil), claim("k", "a"))
	expect(t, "refused connection", err, lockspec.ErrUnavailable)
	expect(t, "refused connection", err, reference.ErrNotSent)
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestOutOfMemory: a full server grants nothing, but a holder can renew and
// release.
func TestOutOfMemory(t *testing.T) {
	l := newLab(t, nil)
	for name, o := range kinds {
		b := backend(t, l.Addr(), o)
		grant(t, b, claim(name, "a"))
		l.do(t, "CONFIG", "SET", "maxmemory", "1mb")
		err := attempt(t, b, claim(name+"2", "a"))
		expect(t, name+": attempt", err, lockspec.ErrUnavailable)
		expect(t, name+": attempt", err, reference.ErrNotSent)
		expect(t, name+": renewal", b.Renew(t.Context(), claim(name, "a")), nil)
		expect(t, name+": release", b.Release(t.Context(), claim(name, "a")), nil)
		l.do(t, "CONFIG", "SET", "maxmemory", "0")
	}
}

// TestReplica: the wrong server is a mistake of the user, a demoted one is an
// outage; neither is contention.
func TestReplica(t *testing.T) {
	l := newLab(t, nil)
	addr, end, err := l.Replica(t.Context())
	must(t, err)
	defer end()
	expect(t, "a replica from the start", attempt(t, backend(t, addr, nil), claim("k", "a")), lockspec.ErrConfig)

	b := backend(t, l.Addr(), nil)
	grant(t, b, claim("k", "a"))
	grant(t, b, claim("k3", "x"))
	_, port, _ := net.SplitHostPort(addr)
	l.do(t, "REPLICAOF", "127.0.0.1", port)
	for what, err := range map[string]error{
		"attempt": attempt(t, b, claim("k2", "a")), "attempt of a held key": attempt(t, b, claim("k3", "a")), "renewal": b.Renew(t.Context(), claim("k", "a")), "release": b.Release(t.Context(), claim("k", "a")),
	} {
		expect(t, what+" at a primary that was demoted", err, lockspec.ErrUnavailable)
	}
}

// TestWait: a grant that too few replicas confirm is not handed out. It may
// stand, so the engine gives it back.
func TestWait(t *testing.T) {
	l := newLab(t, nil)
	b := backend(t, l.Addr(), &Options{Wait: 1})
	err := attempt(t, b, claim("k", "a"))
	expect(t, "without a replica", err, lockspec.ErrUnavailable)
	if errors.Is(err, reference.ErrNotSent) {
		t.Error("nothing says that it has no effect")
	}
	must(t, b.Release(t.Context(), claim("k", "a")))

	addr, end, err := l.Replica(t.Context())
	must(t, err)
	defer end()
	awaitReplica(t, l)
	b = backend(t, l.Addr(), &Options{Wait: 1, WaitTimeout: 3 * time.Second})
	grant(t, b, claim("k", "a"))
	expect(t, "another", attempt(t, b, claim("k", "b")), lockspec.ErrBusy)
	expect(t, "renewal", b.Renew(t.Context(), claim("k", "a")), nil)
	expect(t, "another's renewal", b.Renew(t.Context(), claim("k", "b")), lockspec.ErrLost)
	s, err := backend(t, l.Addr(), nil).Look(t.Context())
	must(t, err)
	if s.Replicas != 1 || s.ClassOf() != lockspec.ReplicatedLease || len(s.Warnings()) != 1 {
		t.Errorf("%+v", s)
	}
	_, err = backend(t, addr, nil).Look(t.Context())
	expect(t, "a look at the replica", err, lockspec.ErrConfig)
}

func awaitReplica(t *testing.T, l *lab) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if info := l.do(t, "INFO", "replication").(string); strings.Contains(info, "state=online") {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("the replica never came online")
		}
	}
}

// TestFailover: a replica that heard of no lock any more is promoted.
// The lock is forgotten, as the class declares; the tokens rise all the same.
func TestFailover(t *testing.T) {
	l := newLab(t, nil)
	_, port, err := net.SplitHostPort(l.Addr())
	must(t, err)
	replica := newLab(t, &containers.RedisOptions{Directives: []string{"replicaof 127.0.0.1 " + port}})
	awaitReplica(t, l)
	b := backend(t, l.Addr(), nil)
	replica.do(t, "REPLICAOF", "127.0.0.1", "1") // it keeps what it has and hears no more
	for range 3 {
		grant(t, b, claim("k", "a"))
		must(t, b.Release(t.Context(), claim("k", "a")))
	}
	last := grant(t, b, claim("k", "a"))
	must(t, l.Kill())
	replica.do(t, "REPLICAOF", "NO", "ONE")
	if next := grant(t, backend(t, replica.Addr(), nil), claim("k", "b")); next <= last {
		t.Errorf("token %d after %d and a failover", next, last)
	}
}

// TestCluster: the two keys of a lock are in one slot, whatever the key.
func TestCluster(t *testing.T) {
	l := newLab(t, &containers.RedisOptions{Directives: []string{"cluster-enabled yes"}})
	b := backend(t, l.Addr(), nil)
	err := attempt(t, b, claim("k", "a"))
	expect(t, "a cluster without slots", err, lockspec.ErrUnavailable)
	l.do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	for limit := time.Now().Add(10 * time.Second); !strings.Contains(l.do(t, "CLUSTER", "INFO").(string), "cluster_state:ok"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the cluster never came up")
		}
	}
	for _, key := range []string{"k", "{", "}", "{}", "a{b}c", "}{", "%7B", "{k}:fence"} {
		if l.do(t, "CLUSTER", "KEYSLOT", b.opts.lockKey(key)) != l.do(t, "CLUSTER", "KEYSLOT", b.opts.fenceKey(key)) {
			t.Errorf("%q: lock and counter are in two slots", key)
		}
		grant(t, b, claim(key, "a"))
		must(t, b.Renew(t.Context(), claim(key, "a")))
		must(t, b.Release(t.Context(), claim(key, "a")))
	}
}

// fake is a server that says of every command that is a lock's what it was told
// to say.
type fake struct {
	net.Listener
	says func(command string) string
	seen atomic.Int64 // commands of locks
}

func newFake(t *testing.T, says func(command string) string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	f := &fake{Listener: l, says: says}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	return f
}

func (f *fake) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewReader(c); ; {
		var words []string
		var n, size int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
			return
		}
		for range n {
			if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
				return
			}
			word := make([]byte, size+2)
			if _, err := io.ReadFull(in, word); err != nil {
				return
			}
			words = append(words, string(word[:size]))
		}
		if _, err := io.WriteString(c, f.answer(words)+"\r\n"); err != nil {
			return
		}
	}
}

func (f *fake) answer(words []string) string {
	line := strings.Join(words, " ")
	switch word := strings.ToUpper(words[0]); word {
	case "HELLO":
		return "-ERR unknown command 'HELLO'"
	case "INFO":
		return "$12\r\nrun_id:fake1"
	case "SCRIPT", "CONFIG", "ROLE":
		return "-ERR not here"
	case "PING":
		return "+PONG"
	case "SET", "COMMAND":
		if word == "COMMAND" || strings.Contains(line, probeKey) {
			return f.says(line)
		}
	}
	f.seen.Add(1)
	return f.says(line)
}

// TestMeanings: every error that a server may give, as an outcome of every
// operation. None is busy.
func TestMeanings(t *testing.T) {
	rows := map[string]error{
		"ERR something else": lockspec.ErrUnavailable,
		"READONLY You can't write against a read only replica.": lockspec.ErrConfig,
	}
	for _, m := range meanings {
		rows[m.begins+" and so on"] = m.kind
	}
	for said, want := range rows {
		f := newFake(t, func(string) string { return "-" + said })
		for name, o := range kinds {
			b := backend(t, f.Addr().String(), o)
			for op, err := range map[string]error{
				"attempt": attempt(t, b, claim("k", "a")), "renewal": b.Renew(t.Context(), claim("k", "a")), "release": b.Release(t.Context(), claim("k", "a")),
			} {
				expect(t, name+": "+said+": "+op, err, want)
				for _, never := range []error{lockspec.ErrBusy, lockspec.ErrNotHeld, lockspec.ErrLost, lockspec.ErrTimeout} {
					if errors.Is(err, never) {
						t.Errorf("%s: %s of %s is %v", name, op, said, never)
					}
				}
			}
		}
		if n := f.seen.Load(); n != 6 {
			t.Errorf("%s: 6 calls sent %d requests", said, n)
		}
	}
}

// TestNative: commands that this machine's server lacks are sent to one that
// has them, and no more once it is found not to have them.
func TestNative(t *testing.T) {
	const has, hasNot = "*2\r\n*1\r\n+deleted\r\n*1\r\n+deleted", "*2\r\n$-1\r\n$-1"
	for _, test := range []struct {
		what, known, ifeq string
		o                 Options
		answer            string // of a native command
		release, renew    string // the command that is sent
		want              error
	}{
		{"Valkey", has, "$-1", Options{}, ":1", "DELIFEQ", "EVALSHA", nil},
		{"Valkey, not held", has, "$-1", Options{}, ":0", "DELIFEQ EXISTS", "EVALSHA", lockspec.ErrLost},
		{"Redis 8.4 by option", has, "$-1", Options{Release: ReleaseDELEX}, ":1", "DELEX", "EVALSHA", nil},
		{"IFEQ by option", hasNot, "$-1", Options{Renew: RenewIFEQ}, "+OK", "EVALSHA", "SET", nil},
		{"IFEQ, not held", hasNot, "$-1", Options{Renew: RenewIFEQ}, "$-1", "EVALSHA", "SET EXISTS", lockspec.ErrLost},
		{"IFEQ that there is not", hasNot, "-ERR syntax error", Options{Renew: RenewIFEQ}, "", "EVALSHA", "EVALSHA", nil},
		{"Lua by option", has, "$-1", Options{Release: ReleaseLua}, "", "EVALSHA", "EVALSHA", nil},
		{"an older server took over", has, "$-1", Options{}, "-ERR unknown command 'DELIFEQ'", "DELIFEQ EVALSHA", "EVALSHA", nil},
	} {
		t.Run(test.what, func(t *testing.T) {
			var sent words
			f := newFake(t, func(line string) string {
				word, _, _ := strings.Cut(line, " ")
				word = strings.ToUpper(word)
				switch {
				case word == "COMMAND":
					return test.known
				case strings.Contains(line, probeKey):
					return test.ifeq
				}
				sent.add(word)
				switch word {
				case "EVALSHA":
					return ":1"
				case "EXISTS":
					return ":0"
				}
				return test.answer
			})
			b := backend(t, f.Addr().String(), &test.o)
			check := func(op string, call func(context.Context, reference.Claim) error, want string) {
				sent.mu.Lock()
				sent.all = nil
				sent.mu.Unlock()
				err := call(t.Context(), claim("k", "a"))
				if got := strings.Join(sent.list(), " "); got != want {
					t.Errorf("%s sent %s, want %s", op, got, want)
				}
				if !strings.Contains(want, "EVALSHA") {
					expect(t, op, err, test.want)
				} else {
					expect(t, op, err, nil)
				}
			}
			_, _ = b.Look(t.Context()) // it gets to know the server
			check("renewal", b.Renew, test.renew)
			check("release", b.Release, test.release)
		})
	}
}

// TestPing: a server that stands still because of a fault of ours is no sign of
// a stall; one that stands still by itself gives no sign of life.
func TestPing(t *testing.T) {
	l := newLab(t, nil)
	f, _ := proxied(t, l, nil)
	ping := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return f.Ping(ctx)
	}
	expect(t, "a server that runs", ping(), nil)
	must(t, f.Stop(t.Context()))
	expect(t, "a server that we stopped", ping(), lockspec.ErrUnsupported)
	must(t, f.Continue(t.Context()))
	expect(t, "a server that goes on", ping(), nil)
	must(t, f.Restart(t.Context()))
	expect(t, "a server that was started anew", ping(), nil)
	must(t, l.Pause())
	if err := ping(); err == nil || errors.Is(err, lockspec.ErrUnsupported) {
		t.Errorf("a server that stands still: %v", err)
	}
	must(t, l.Resume())

	asked := make(chan error, 1)
	must(t, l.Pause())
	go func() { asked <- f.Ping(t.Context()) }()
	time.Sleep(20 * time.Millisecond)
	must(t, f.Stop(t.Context())) // while it is asked
	expect(t, "a question that a fault of ours overtook", <-asked, lockspec.ErrUnsupported)
	must(t, f.Continue(t.Context()))
}
