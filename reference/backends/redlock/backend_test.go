package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/redis"
)

// lab is servers that a test has for itself.
type lab struct {
	servers []containers.Server
	addrs   []string
}

func newLab(t *testing.T, n int) *lab {
	t.Helper()
	redis.Quiet()
	l := &lab{}
	for range n {
		s, err := containers.Redis(t.Context(), nil)
		var missing *containers.MissingError
		if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
			t.Skip(err)
		}
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		l.servers, l.addrs = append(l.servers, s), append(l.addrs, s.Addr())
	}
	return l
}

// do is one command at one server.
func (l *lab) do(t *testing.T, server int, args ...any) any {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: l.addrs[server], Protocol: 2, DisableIdentity: true})
	defer c.Close()
	v, err := c.Do(t.Context(), args...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		t.Fatal(err)
	}
	return v
}

// votes is who has the vote of each server.
func (l *lab) votes(t *testing.T, key string) (all []any) {
	t.Helper()
	for n := range l.servers {
		all = append(all, l.do(t, n, "GET", "lock:{"+key+"}"))
	}
	return all
}

func (l *lab) backend(t *testing.T, o *Options) *Backend {
	t.Helper()
	b, err := New(l.addrs, o)
	must(t, err)
	t.Cleanup(func() { must(t, b.Close()) })
	return b
}

func claim(owner string) reference.Claim {
	return reference.Claim{Key: "k", Owner: owner, Lease: 10 * time.Second, Count: 1}
}

func try(t *testing.T, b *Backend, owner string) error {
	t.Helper()
	g, err := b.Attempt(t.Context(), claim(owner))
	if err == nil && (g.Token != 0 || g.Lease >= 10*time.Second || g.Lease < 9*time.Second) {
		t.Errorf("granted %+v", g)
	}
	return err
}

func expect(t *testing.T, what string, err, want error) {
	t.Helper()
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(5 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within 5s: %s", what)
		}
	}
}

func TestProtocol(t *testing.T) {
	l := newLab(t, 3)
	b := l.backend(t, nil)
	must(t, try(t, b, "a"))
	must(t, try(t, b, "a")) // it finds out that it holds the key
	expect(t, "another's attempt", try(t, b, "b"), lockspec.ErrBusy)
	expect(t, "another's renewal", b.Renew(t.Context(), claim("b")), lockspec.ErrNotHeld)
	expect(t, "another's release", b.Release(t.Context(), claim("b")), lockspec.ErrNotHeld)
	must(t, b.Renew(t.Context(), claim("a")))
	must(t, b.Release(t.Context(), claim("a")))
	expect(t, "second release", b.Release(t.Context(), claim("a")), lockspec.ErrNotHeld)
	eventually(t, "no server has a vote", func() bool { return fmt.Sprint(l.votes(t, "k")) == "[<nil> <nil> <nil>]" })
	if len(b.votes) > 0 {
		t.Errorf("votes are remembered: %v", b.votes)
	}
	if d := b.Describe(); d.Claims(lockspec.Fencing) || d.Class != lockspec.ReplicatedLease || d.Validate() != nil {
		t.Errorf("%+v", d)
	}
}

// TestMinority: one dead server of three changes nothing, two are an outage.
// One that stands still costs no time.
func TestMinority(t *testing.T) {
	l := newLab(t, 3)
	b := l.backend(t, nil)
	must(t, l.servers[0].Pause())
	begin := time.Now()
	must(t, try(t, b, "a"))
	must(t, b.Renew(t.Context(), claim("a")))
	expect(t, "another's attempt", try(t, b, "b"), lockspec.ErrBusy)
	must(t, b.Release(t.Context(), claim("a")))
	if took := time.Since(begin); took > time.Second {
		t.Errorf("with one server that stands still it took %v", took)
	}
	must(t, l.servers[0].Kill())
	must(t, try(t, b, "a"))
	must(t, l.servers[1].Kill())
	expect(t, "renewal without a quorum", b.Renew(t.Context(), claim("a")), lockspec.ErrUnavailable)
	expect(t, "attempt without a quorum", try(t, b, "b"), lockspec.ErrUnavailable)
	expect(t, "release without a quorum", b.Release(t.Context(), claim("a")), lockspec.ErrUnavailable)
	eventually(t, "the server that lives has no vote", func() bool { return l.do(t, 2, "GET", "lock:{k}") == nil })
}

// TestSplitVotes: who got too few gives them back.
func TestSplitVotes(t *testing.T) {
	l := newLab(t, 3)
	b := l.backend(t, nil)
	l.do(t, 0, "SET", "lock:{k}", "x", "PX", 60_000)
	l.do(t, 1, "SET", "lock:{k}", "y", "PX", 60_000)
	expect(t, "attempt", try(t, b, "a"), lockspec.ErrBusy)
	eventually(t, "the third vote is given back", func() bool { return fmt.Sprint(l.votes(t, "k")) == "[x y <nil>]" })
}

// TestDrift: what is asked of the servers is the promise and what their clocks
// may take from it, and not much more.
func TestDrift(t *testing.T) {
	for _, promised := range []time.Duration{100 * time.Millisecond, time.Second, time.Hour} {
		a := asked(promised)
		if kept := a - drift(a); kept < promised || kept > promised+2*time.Millisecond {
			t.Errorf("%v was asked for as %v, which keeps %v", promised, a, kept)
		}
	}
}

// TestGivenBackWhereItFailed: a server that stood still has both the vote and
// its release to answer when it goes on, each on a connection of its own.
// Mostly nothing is left at once; if the release came first, the vote is gone
// with its lease.
func TestGivenBackWhereItFailed(t *testing.T) {
	l := newLab(t, 3)
	b := l.backend(t, &Options{ServerTimeout: 100 * time.Millisecond})
	must(t, try(t, b, "warm")) // connections are open
	must(t, b.Release(t.Context(), claim("warm")))
	b.working.Wait()
	must(t, l.servers[0].Pause())
	must(t, l.servers[1].Kill())
	c := claim("a")
	c.Lease = 2 * time.Second
	_, err := b.Attempt(t.Context(), c)
	expect(t, "attempt", err, lockspec.ErrUnavailable)
	b.working.Wait()
	must(t, l.servers[0].Resume())
	eventually(t, "nothing is left", func() bool { return l.do(t, 0, "GET", "lock:{k}") == nil && l.do(t, 2, "GET", "lock:{k}") == nil })
}

// TestPlanting: a server that has forgotten is given the vote anew with a
// renewal, one whose vote is another's is left alone, and a vote that was
// planted does not make a quorum.
func TestPlanting(t *testing.T) {
	l := newLab(t, 5)
	b := l.backend(t, nil)
	must(t, try(t, b, "a"))
	b.working.Wait()
	mine := l.do(t, 2, "GET", "lock:{k}")
	l.do(t, 0, "DEL", "lock:{k}")
	l.do(t, 1, "SET", "lock:{k}", "x", "PX", 60_000)
	eventually(t, "the vote is planted", func() bool {
		must(t, b.Renew(t.Context(), claim("a"))) // a quorum may have answered before it
		return l.do(t, 0, "GET", "lock:{k}") == mine
	})
	if v := l.do(t, 1, "GET", "lock:{k}"); v != "x" {
		t.Errorf("the other's vote became %v", v)
	}
	for _, n := range []int{0, 2, 3} {
		l.do(t, n, "DEL", "lock:{k}")
	}
	var loss *reference.LostError
	if err := b.Renew(t.Context(), claim("a")); !errors.As(err, &loss) {
		t.Errorf("renewal of what most servers have forgotten: %v", err)
	}
	if v := l.do(t, 2, "GET", "lock:{k}"); v != nil {
		t.Errorf("a renewal that failed planted %v", v)
	}
}

func TestBadOptions(t *testing.T) {
	for _, test := range []struct {
		addrs []string
		o     *Options
		want  error
	}{
		{[]string{"a:1", "b:1"}, nil, lockspec.ErrConfig},
		{[]string{"a:1", "b:1", "a:1"}, nil, lockspec.ErrConfig},
		{[]string{"a:1", "b:1", "c:1"}, &Options{ServerTimeout: -1}, lockspec.ErrConfig},
		{[]string{"a:1", "b:1", "c:1"}, &Options{Server: redis.Options{Wait: 1}}, lockspec.ErrUnsupported},
		{[]string{"a:1", "b:1", "c:1"}, &Options{Server: redis.Options{Prefix: "{"}}, lockspec.ErrConfig},
	} {
		if _, err := New(test.addrs, test.o); !errors.Is(err, test.want) {
			t.Errorf("%v: %v", test.addrs, err)
		}
	}
}

// TestWrongPassword: what no retry can fix is no outage.
func TestWrongPassword(t *testing.T) {
	l := newLab(t, 3)
	b := l.backend(t, &Options{Server: redis.Options{Username: "nobody", Password: "x"}})
	expect(t, "attempt", try(t, b, "a"), lockspec.ErrConfig)
}

// TestUnreachable: nobody listens anywhere.
func TestUnreachable(t *testing.T) {
	redis.Quiet()
	l := &lab{}
	for range 3 {
		s, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		l.addrs = append(l.addrs, s.Addr().String())
		must(t, s.Close())
	}
	b := l.backend(t, nil)
	expect(t, "attempt", try(t, b, "a"), lockspec.ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Attempt(ctx, claim("a"))
	if err == nil || errors.Is(err, lockspec.ErrBusy) {
		t.Errorf("a cancelled attempt: %v", err)
	}
}
