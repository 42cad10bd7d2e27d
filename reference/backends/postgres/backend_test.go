package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference"
)

// variants are the two protocols: with a counter, and without.
var variants = map[string]*Options{"fenced": {}, "unfenced": {Unfenced: true}}

func TestProtocol(t *testing.T) {
	l := newLab(t)
	for name, o := range variants {
		t.Run(name, func(t *testing.T) {
			b, far := backend(t, at(l.Addr()), o), backend(t, at(l.Addr()), o)
			a, other := claim(t, "k", "a"), claim(t, "k", "b")
			first := grant(t, b, a)
			for _, way := range []*Backend{b, far} { // a session is reentrant, a lock is not
				expect(t, "another's attempt", attempt(t, way, other), lockspec.ErrBusy)
				expect(t, "another's renewal", way.Renew(t.Context(), other), lockspec.ErrLost)
				expect(t, "another's release", way.Release(t.Context(), other), lockspec.ErrLost)
			}
			expect(t, "renewal", b.Renew(t.Context(), a), nil)
			if again := grant(t, b, a); again.Token != first.Token {
				t.Errorf("its owner was granted token %d, then %d", first.Token, again.Token)
			}
			expect(t, "release", b.Release(t.Context(), a), nil)
			expect(t, "second release", b.Release(t.Context(), a), lockspec.ErrLost)
			expect(t, "renewal after it", b.Renew(t.Context(), a), lockspec.ErrLost)
			second := grant(t, far, other)
			if o.Unfenced && (first.Token != 0 || second.Token != 0) {
				t.Errorf("tokens %d, %d without a counter", first.Token, second.Token)
			}
			if !o.Unfenced && (first.Token <= 0 || second.Token <= first.Token) {
				t.Errorf("tokens %d, %d", first.Token, second.Token)
			}
		})
	}
}

// TestKept: a session that is known to hold nothing takes the next lock.
func TestKept(t *testing.T) {
	b := backend(t, at(newLab(t).Addr()), nil)
	pids := map[string]bool{}
	for n := range 5 {
		c := claim(t, fmt.Sprint(n), "a")
		grant(t, b, c)
		pids[b.find(c).session.pid] = true
		must(t, b.Release(t.Context(), c))
	}
	if len(pids) != 1 {
		t.Errorf("5 locks, one after the other, took %d sessions", len(pids))
	}
}

// TestTerminated: the end of a session is known by itself, within milliseconds,
// whether it holds a lock or waits for one to hold.
func TestTerminated(t *testing.T) {
	l := newLab(t)
	b := backend(t, at(l.Addr()), nil)
	c, next := claim(t, "k", "a"), claim(t, "k", "b")
	g := grant(t, b, c)
	must(t, faults(t, l, nil).Evict(t.Context(), c.Key))
	if took := lossOf(t, g, 2*time.Second); took > time.Second {
		t.Errorf("it took %v", took)
	}
	expect(t, "renewal of what was lost", b.Renew(t.Context(), c), lockspec.ErrLost)
	expect(t, "release of what was lost", b.Release(t.Context(), c), lockspec.ErrLost)
	soon(t, "the slot is free again", time.Second, func() bool { return len(b.pool.slots) == 0 })

	grant(t, b, next)
	pid := b.find(next).session.pid
	must(t, b.Release(t.Context(), next))
	l.sql(t, "SELECT pg_terminate_backend("+pid+", 2000)")
	soon(t, "the idle session is known to have ended", time.Second, func() bool { return b.pool.kept() == nil })
	grant(t, b, next)
}

// TestOwnership: a probe asks for the lock, not for a sign of life.
func TestOwnership(t *testing.T) {
	b := backend(t, at(newLab(t).Addr()), nil)
	c := claim(t, "k", "a")
	g := grant(t, b, c)
	must(t, b.find(c).session.do(t.Context(), func(c *pgconn.PgConn) error { // as a pooler's reset does
		_, err := c.Exec(context.Background(), "SELECT pg_advisory_unlock_all()").ReadAll()
		return err
	}))
	expect(t, "renewal", b.Renew(t.Context(), c), lockspec.ErrLost)
	lossOf(t, g, time.Second)
}

// TestGivenUp: a probe that was given up costs nothing if it is answered later;
// one that is not heard of for three probes has given the lock up, and so has its
// session.
func TestGivenUp(t *testing.T) {
	l := newLab(t, own)
	b := backend(t, at(l.Addr()), &Options{Probe: time.Second})
	c := claim(t, "k", "a")
	g, never := grant(t, b, c), grant(t, b, claim(t, "never probed", "a"))
	must(t, l.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	err := b.Renew(ctx, c)
	cancel()
	if err == nil || errors.Is(err, lockspec.ErrLost) {
		t.Errorf("a probe that was given up: %v", err)
	}
	must(t, l.Resume())
	<-time.After(b.opts.Probe) // what counts is the last probe, not the grant
	expect(t, "the next one", b.Renew(t.Context(), c), nil)
	if took := lossOf(t, g, 10*time.Second); took < b.opts.span()-100*time.Millisecond {
		t.Errorf("given up %v after the last probe, and not after %v", took, b.opts.span())
	}
	lossOf(t, never, time.Second)
	soon(t, "the key is free", 2*time.Second, func() bool { return attempt(t, b, claim(t, "k", "b")) == nil })
}

// TestUnconfirmed: an unlock whose answer does not come leaves no session that
// may hold the lock.
func TestUnconfirmed(t *testing.T) {
	l := newLab(t)
	f := faults(t, l, nil)
	b, far := backend(t, f.URL(), nil), backend(t, at(l.Addr()), nil)
	for _, what := range []string{"drop-request", "drop-reply"} {
		c := claim(t, what, "a")
		grant(t, b, c)
		session := b.find(c).session
		struck, err := f.Interfere(t.Context(), contract.Interference(what), "release", c.Key, 1)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err = b.Release(ctx, c)
		cancel()
		expect(t, what, err, lockspec.ErrUnavailable)
		must(t, struck.Await(t.Context()))
		soon(t, "the session has ended", time.Second, func() bool { return !session.alive() })
		if b.pool.kept() != nil {
			t.Error("it is kept for the next attempt")
		}
		soon(t, "the key is free", 2*time.Second, func() bool { return attempt(t, far, claim(t, what, "b")) == nil })
		must(t, struck.Lift(t.Context()))
	}
}

// TestLostReply: an attempt whose reply is lost leaves nothing held, and the
// engine's next one is granted.
func TestLostReply(t *testing.T) {
	f := faults(t, newLab(t), nil)
	b := backend(t, f.URL(), nil)
	e, err := reference.New(b, &reference.Options{AttemptTimeout: 200 * time.Millisecond})
	must(t, err)
	defer e.Close()
	key := t.Name()
	lost, err := f.Interfere(t.Context(), "drop-reply", "acquire", key, 1)
	must(t, err)
	lease, err := e.Acquire(t.Context(), key, &reference.AcquireOptions{Wait: 5 * time.Second})
	must(t, err)
	must(t, lost.Await(t.Context()))
	if held, err := f.Inspect(t.Context(), key); err != nil || len(held) != 1 {
		t.Errorf("it is held by %v, %v", held, err)
	}
	must(t, lease.Release(t.Context()))
}

// TestFailedStatement: a session lock outlives the statement that took it and
// failed, so the session must not.
func TestFailedStatement(t *testing.T) {
	l := newLab(t)
	b := backend(t, at(l.Addr()), nil)
	c := claim(t, "k", "a")
	grant(t, b, c)
	must(t, b.Release(t.Context(), c))
	l.sql(t, fmt.Sprintf("UPDATE %s SET token = 9223372036854775807 WHERE key = %d", DefaultTable, KeyID(c.Key)))
	expect(t, "a counter that cannot rise", attempt(t, b, c), lockspec.ErrConfig)
	soon(t, "nobody holds the key", 2*time.Second, func() bool {
		return l.sql(t, fmt.Sprintf("SELECT pid"+holders, KeyID(c.Key))) == nil
	})
}

// TestCounter: tokens rise though the counter is lost, or ahead of the clock.
func TestCounter(t *testing.T) {
	l := newLab(t)
	o := &Options{Table: "counters"}
	b := backend(t, at(l.Addr()), o)
	c := claim(t, "k", "a")
	last := int64(0)
	next := func(what string) {
		t.Helper()
		token := grant(t, b, c).Token
		must(t, b.Release(t.Context(), c))
		if token <= last || token > 1<<53 {
			t.Errorf("token %d after %d, %s", token, last, what)
		}
		last = token
	}
	next("at first")
	next("after a release")
	for range 20 {
		l.sql(t, "DELETE FROM counters")
		next("though the counter was deleted")
	}
	last += int64(time.Hour / time.Microsecond) // the clock of another primary was ahead
	l.sql(t, fmt.Sprintf("UPDATE counters SET token = %d", last))
	next("though the clock is behind the counter")
	next("again")
}

// TestFirstUse: many come at once to a server that has no table.
func TestFirstUse(t *testing.T) {
	l := newLab(t)
	o := &Options{Table: "first_use"}
	var all sync.WaitGroup
	for n := range 10 {
		b := backend(t, at(l.Addr()), o)
		all.Go(func() { expect(t, "a first user", attempt(t, b, claim(t, fmt.Sprint(n), "a")), nil) })
	}
	all.Wait()
	b := backend(t, at(l.Addr()), o)
	grant(t, b, claim(t, "k", "a"))
	must(t, b.Sweep(t.Context()))
	if got := l.sql(t, "SELECT to_regclass('first_use') IS NULL"); got[0] != "t" {
		t.Error("its table is left")
	}
}

// TestDefaults: what a server's or a user's defaults would do to a lock.
func TestDefaults(t *testing.T) {
	l := newLab(t, "idle_session_timeout = 300ms", "statement_timeout = 10s", "lock_timeout = 1",
		"default_transaction_isolation = 'serializable'")
	o := &Options{Probe: 2 * time.Second}
	b := backend(t, at(l.Addr()), o)
	c := claim(t, "k", "a")
	g := grant(t, b, c)
	select {
	case err := <-g.Lost:
		t.Errorf("it was lost: %v", err)
	case <-time.After(time.Second):
	}
	var got []string
	must(t, b.find(c).session.do(t.Context(), func(c *pgconn.PgConn) (err error) {
		got, err = first(context.Background(), c, `SELECT current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_interval'),
current_setting('tcp_keepalives_count'), current_setting('tcp_user_timeout'), current_setting('default_transaction_isolation'),
current_setting('idle_session_timeout'), current_setting('statement_timeout')`)
		return err
	}))
	if want := "[6 1 2 7000 read committed 0 0]"; fmt.Sprint(got) != want {
		t.Errorf("the session has %v, want %s", got, want)
	}
}

// TestBounds: the holder gives up before the server may free the key, and the
// server does so within what is promised.
func TestBounds(t *testing.T) {
	for _, probe := range []time.Duration{50 * time.Millisecond, 333 * time.Millisecond, 400 * time.Millisecond, DefaultProbe, time.Minute} {
		o := Options{Probe: probe}
		idle, interval, count, userTimeout := o.keepalive()
		soonest := time.Duration(idle) * time.Second // the first sign that nobody is there
		if soonest < o.span() || time.Duration(userTimeout)*time.Millisecond < o.span() {
			t.Errorf("probe %v: the server may free the key after %v, the holder gives up after %v", probe, soonest, o.span())
		}
		if last := time.Duration(idle+interval*count) * time.Second; o.takeover() < last {
			t.Errorf("probe %v: %v is promised, and the server may take %v", probe, o.takeover(), last)
		}
	}
}

// TestForeignClock: an engine's clock need not run as this machine's: its
// deadlines say nothing to a socket.
func TestForeignClock(t *testing.T) {
	b := backend(t, at(newLab(t).Addr()), nil)
	if _, err := b.Attempt(pastDeadline{t.Context()}, claim(t, "k", "a")); err != nil {
		t.Errorf("attempt with a deadline of another clock: %v", err)
	}
}

// pastDeadline has a deadline that passed on another clock only.
type pastDeadline struct{ context.Context }

func (pastDeadline) Deadline() (time.Time, bool) { return time.Now().Add(-time.Hour), true }

// TestClose: nothing is left on the server, held or idle.
func TestClose(t *testing.T) {
	l := newLab(t)
	b, err := New(at(l.Addr())+"&application_name=closing", nil)
	must(t, err)
	g := grant(t, b, claim(t, "k", "a"))
	grant(t, b, claim(t, "idle", "a"))
	must(t, b.Release(t.Context(), claim(t, "idle", "a")))
	must(t, b.Close())
	lossOf(t, g, time.Second)
	soon(t, "its sessions have ended", 2*time.Second, func() bool {
		return l.sql(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'closing'")[0] == "0"
	})
	expect(t, "an attempt afterwards", attempt(t, b, claim(t, "k", "a")), lockspec.ErrUnavailable)
}
