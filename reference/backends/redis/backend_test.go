package redis

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// kinds are the two protocols: with a counter, and without.
var kinds = map[string]*Options{"fenced": {}, "unfenced": {Unfenced: true}}

func TestProtocol(t *testing.T) {
	l := newLab(t, nil)
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			b := backend(t, l.Addr(), o)
			a, other := claim(name, "a"), claim(name, "b")
			first := grant(t, b, a)
			expect(t, "another's attempt", attempt(t, b, other), lockspec.ErrBusy)
			expect(t, "another's renewal", b.Renew(t.Context(), other), lockspec.ErrLost)
			expect(t, "another's release", b.Release(t.Context(), other), lockspec.ErrLost)
			expect(t, "renewal", b.Renew(t.Context(), a), nil)
			expect(t, "release", b.Release(t.Context(), a), nil)
			expect(t, "second release", b.Release(t.Context(), a), lockspec.ErrLost)
			expect(t, "renewal after it", b.Renew(t.Context(), a), lockspec.ErrLost)
			if l.do(t, "EXISTS", b.opts.lockKey(name)) != int64(0) {
				t.Error("a renewal created anew what was released")
			}
			second := grant(t, b, other)
			if o.Unfenced && (first != 0 || second != 0) {
				t.Errorf("tokens %d, %d without a counter", first, second)
			}
			if !o.Unfenced && (first <= 0 || second <= first) {
				t.Errorf("tokens %d, %d", first, second)
			}
		})
	}
}

// TestReasons: a loss says whether the key is another's.
func TestReasons(t *testing.T) {
	l := newLab(t, nil)
	b := backend(t, l.Addr(), nil)
	reason := func(err error) reference.Reason {
		var loss *reference.LostError
		if !errors.As(err, &loss) {
			t.Fatalf("no loss: %v", err)
		}
		return loss.Reason
	}
	grant(t, b, claim("k", "a"))
	for what, call := range map[string]func(context.Context, reference.Claim) error{"renew": b.Renew, "release": b.Release} {
		if r := reason(call(t.Context(), claim("k", "b"))); r != reference.TakenOver {
			t.Errorf("%s of what another holds: %s", what, r)
		}
		if r := reason(call(t.Context(), claim("nothing", "b"))); r != reference.Expired {
			t.Errorf("%s of what nobody holds: %s", what, r)
		}
	}
}

// TestOwnToken: whoever holds a key finds out by asking again, and is granted
// the same token with a lease that starts anew.
func TestOwnToken(t *testing.T) {
	l := newLab(t, nil)
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			b := backend(t, l.Addr(), o)
			c := claim(name, "a")
			first := grant(t, b, c)
			l.do(t, "PEXPIRE", b.opts.lockKey(name), 100)
			if again := grant(t, b, c); again != first {
				t.Errorf("token %d, then %d", first, again)
			}
			if left := l.do(t, "PTTL", b.opts.lockKey(name)).(int64); left < 9000 {
				t.Errorf("the lease did not start anew: %d ms are left", left)
			}
		})
	}
}

// TestLease: what the server promises is not shorter than what the holder
// relies on, and not a plain string for ever.
func TestLease(t *testing.T) {
	l := newLab(t, nil)
	for name, o := range kinds {
		b := backend(t, l.Addr(), o)
		c := claim(name, "a")
		c.Lease = 700*time.Millisecond + time.Nanosecond
		begin := time.Now()
		grant(t, b, c)
		for attempt(t, b, claim(name, "b")) != nil {
			if time.Since(begin) > 5*time.Second {
				t.Fatal("it never expired")
			}
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begin); took < c.Lease {
			t.Errorf("%s: the lease of %v was over after %v", name, c.Lease, took)
		}
	}
}

// TestLostReply: the reply to an acquisition is lost. It was sent once, the
// engine's next attempt finds its own grant and not another's, and nobody else
// was let in.
func TestLostReply(t *testing.T) {
	for name, o := range kinds {
		t.Run(name, func(t *testing.T) {
			f, b := proxied(t, newLab(t, nil), o)
			e, err := reference.New(b, &reference.Options{Lease: 2 * time.Second, AttemptTimeout: 200 * time.Millisecond})
			must(t, err)
			defer e.Close()
			lost, err := f.Interfere(t.Context(), "drop-reply", "acquire", "k", 1)
			must(t, err)
			lease, err := e.Acquire(t.Context(), "k", &reference.AcquireOptions{Wait: 2 * time.Second})
			must(t, err)
			must(t, lost.Await(t.Context()))
			if n, _ := f.Requests(t.Context(), "acquire", "k"); n != 2 {
				t.Errorf("%d attempts reached the server, want the lost one and another", n)
			}
			must(t, lease.Release(t.Context()))
		})
	}
}

// TestNoOrphan: an attempt whose reply was lost, and that nobody repeats, is
// given back long before its lease ends.
func TestNoOrphan(t *testing.T) {
	f, b := proxied(t, newLab(t, nil), nil)
	e, err := reference.New(b, &reference.Options{Lease: 10 * time.Second, AttemptTimeout: 200 * time.Millisecond})
	must(t, err)
	defer e.Close()
	_, err = f.Interfere(t.Context(), "drop-reply", "acquire", "k", 1)
	must(t, err)
	_, err = e.TryAcquire(t.Context(), "k", nil)
	expect(t, "the attempt", err, lockspec.ErrUnavailable)
	if errors.Is(err, lockspec.ErrBusy) {
		t.Error("it is busy with itself")
	}
	for limit := time.Now().Add(3 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		held, err := f.Inspect(t.Context(), "k")
		must(t, err)
		if len(held) == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%v still holds the key", held)
		}
	}
}

// TestForgottenScripts: a flush and a restart lose the scripts; nobody notices.
func TestForgottenScripts(t *testing.T) {
	l := newLab(t, nil)
	f, b := proxied(t, l, nil)
	grant(t, b, claim("k", "a"))
	must(t, f.FlushScripts(t.Context()))
	before, _ := f.Requests(t.Context(), "renew", "k")
	expect(t, "renewal after a flush", b.Renew(t.Context(), claim("k", "a")), nil)
	if n, _ := f.Requests(t.Context(), "renew", "k"); n != before+1 {
		t.Errorf("a renewal that was sent again with its text counts as %d", n-before)
	}
	must(t, f.FlushScripts(t.Context()))
	expect(t, "release after a flush", b.Release(t.Context(), claim("k", "a")), nil)
	must(t, f.FlushScripts(t.Context()))
	last := grant(t, b, claim("k", "a"))
	was := b.server.Load().RunID
	must(t, f.Restart(t.Context()))
	for attempt(t, b, claim("k", "b")) != nil { // a broken connection may be found first
	}
	if b.server.Load().RunID == was {
		t.Error("another server answers, and nobody looked at it")
	}
	must(t, b.Release(t.Context(), claim("k", "b")))
	if next := grant(t, b, claim("k", "b")); next <= last {
		t.Errorf("token %d after %d and a restart", next, last)
	}
}

// TestCounter: the counter never expires, outlives releases, and is made up for
// when it is lost or overwritten.
func TestCounter(t *testing.T) {
	l := newLab(t, nil)
	b := backend(t, l.Addr(), nil)
	fence := b.opts.fenceKey("k")
	last := int64(0)
	next := func(what string) {
		t.Helper()
		token := grant(t, b, claim("k", "a"))
		must(t, b.Release(t.Context(), claim("k", "a")))
		if token <= last {
			t.Errorf("token %d after %d, %s", token, last, what)
		}
		last = token
	}
	next("at first")
	next("after a release")
	if ttl := l.do(t, "PTTL", fence); ttl != int64(-1) {
		t.Errorf("the counter has a time to live: %v", ttl)
	}
	for range 20 {
		l.do(t, "DEL", fence)
		next("though the counter was deleted")
	}
	l.do(t, "SET", fence, "rubbish")
	next("though the counter was overwritten")
	ahead := last + int64(time.Hour/time.Microsecond)
	l.do(t, "SET", fence, ahead) // the clock of another primary was ahead
	last = ahead
	next("though the clock is behind the counter")
	l.do(t, "SET", fence, "9007199254740991")
	err := attempt(t, b, claim("k", "a"))
	expect(t, "a counter that cannot rise", err, lockspec.ErrConfig)
	if l.do(t, "EXISTS", b.opts.lockKey("k")) != int64(0) {
		t.Error("an attempt that was refused holds the key")
	}
	l.do(t, "SET", fence, fmt.Sprint(int64(1)<<50))
	last = 1 << 50
	next("as a whole number without exponent")
}

// TestForeignClock: an engine's clock need not run as this machine's: its
// deadlines say nothing to a socket.
func TestForeignClock(t *testing.T) {
	l := newLab(t, nil)
	b := backend(t, l.Addr(), nil)
	if _, err := b.Attempt(pastDeadline{t.Context()}, claim("k", "a")); err != nil {
		t.Errorf("attempt with a deadline of another clock: %v", err)
	}
}

// pastDeadline has a deadline that passed on another clock only.
type pastDeadline struct{ context.Context }

func (pastDeadline) Deadline() (time.Time, bool) { return time.Now().Add(-time.Hour), true }

// TestCancel: a call returns with its context though the server stands still,
// and leaves nothing behind for longer than its own limit.
func TestCancel(t *testing.T) {
	l := newLab(t, nil)
	b := backend(t, l.Addr(), nil)
	grant(t, b, claim("k", "a"))
	must(t, l.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	err := b.Renew(ctx, claim("k", "a"))
	if took := time.Since(begin); took > time.Second || err == nil {
		t.Errorf("it returned after %v: %v", took, err)
	}
	must(t, l.Resume())
	expect(t, "renewal afterwards", b.Renew(t.Context(), claim("k", "a")), nil)
}

// TestEvictionIsWarnedOf, once for each server.
func TestEvictionIsWarnedOf(t *testing.T) {
	l := newLab(t, &containers.RedisOptions{Directives: []string{"maxmemory-policy volatile-lru"}})
	var told words
	b := backend(t, l.Addr(), &Options{Warn: told.add})
	grant(t, b, claim("k", "a"))
	s, err := b.Look(t.Context())
	must(t, err)
	if !s.Evicts() || s.Name != "redis" || s.Version == "" || s.RunID == "" {
		t.Errorf("%+v", s)
	}
	if all := told.list(); len(all) != 1 || !strings.Contains(all[0], "volatile-lru") || !strings.Contains(all[0], "noeviction") {
		t.Errorf("it was told %q", all)
	}
	told = words{}
	quiet := newLab(t, nil)
	grant(t, backend(t, quiet.Addr(), &Options{Warn: told.add}), claim("k", "a"))
	if all := told.list(); len(all) != 0 {
		t.Errorf("a server that evicts nothing is warned of: %q", all)
	}
}

// TestSweep removes what has the prefix, whatever a pattern makes of it.
func TestSweep(t *testing.T) {
	l := newLab(t, nil)
	kept := []string{"lock:{k}", "run-ab:{k}", "run-?", "run-?:list", "run-?:x{k}"}
	for _, name := range kept {
		l.do(t, "SET", name, "x")
	}
	b := backend(t, l.Addr(), &Options{Prefix: "run-?:"})
	for n := range 3000 {
		l.do(t, "SET", b.opts.lockKey(fmt.Sprint(n)), "x")
	}
	grant(t, b, claim("{k}", "a"))
	must(t, b.Sweep(t.Context()))
	if n := l.do(t, "DBSIZE"); n != int64(len(kept)) {
		t.Errorf("%d keys are left, want %d", n, len(kept))
	}
}

// TestLinesAreLimited: who finds every connection in use waits no longer than
// its context, and what it asked was not sent.
func TestLinesAreLimited(t *testing.T) {
	l := newLab(t, nil)
	b := backend(t, l.Addr(), &Options{PoolSize: 1})
	grant(t, b, claim("k", "a"))
	must(t, l.Pause())
	hung := make(chan error)
	first, give := context.WithCancel(t.Context())
	defer give()
	go func() { hung <- b.Renew(first, claim("k", "a")) }()
	for len(b.lines.free) == 0 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := b.Renew(ctx, claim("k", "a"))
	if !errors.Is(err, lockspec.ErrUnavailable) || !errors.Is(err, reference.ErrNotSent) || !strings.Contains(err.Error(), "1 connections") {
		t.Errorf("with every connection in use: %v", err)
	}
	give()
	if err := <-hung; !errors.Is(err, context.Canceled) {
		t.Errorf("the call that hung: %v", err)
	}
	must(t, l.Resume())
	for range 20 { // the connection that was cut is not the next call's
		expect(t, "renewal afterwards", b.Renew(t.Context(), claim("k", "a")), nil)
	}
	must(t, b.Close())
	expect(t, "renewal after the end", b.Renew(t.Context(), claim("k", "a")), lockspec.ErrUnavailable)
}

// TestIdleConnectionIsLookedAt: a connection that the server closed while nobody
// used it costs no call.
func TestIdleConnectionIsLookedAt(t *testing.T) {
	l := newLab(t, nil)
	b := backend(t, l.Addr(), nil)
	grant(t, b, claim("k", "a"))
	for range 3 {
		l.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		time.Sleep(2 * kept)
		expect(t, "renewal", b.Renew(t.Context(), claim("k", "a")), nil)
	}
}

// TestServerThatIsBack is used at once, however often it could not be dialled.
func TestServerThatIsBack(t *testing.T) {
	l := newLab(t, nil)
	b := backend(t, l.Addr(), nil)
	grant(t, b, claim("k", "a"))
	must(t, l.Kill())
	for range 5 {
		if err := attempt(t, b, claim("k", "b")); !errors.Is(err, lockspec.ErrUnavailable) {
			t.Errorf("no server: %v", err)
		}
	}
	must(t, l.Restart(t.Context()))
	expect(t, "the first attempt", attempt(t, b, claim("k", "b")), nil)
}
