package postgres

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
)

// TestRefusals: what a real server refuses, and what is said then: at once, and
// without a secret.
func TestRefusals(t *testing.T) {
	l := newLab(t)
	l.sql(t, `DO $$ BEGIN CREATE ROLE poor LOGIN PASSWORD 'pw'; CREATE ROLE reader LOGIN PASSWORD 'pw'; END $$;
ALTER ROLE reader SET default_transaction_read_only = on; CREATE TABLE IF NOT EXISTS no_counters (a int)`)
	grant(t, backend(t, at(l.Addr()), nil), claim(t, "k", "a")) // makes the table
	server := func(user, database string) string {
		return "postgres://" + user + "@" + l.Addr() + "/" + database + "?sslmode=disable"
	}
	for _, test := range []struct {
		what, server string
		o            Options
		setting      string
	}{
		{"wrong password", server("postgres:other", "postgres"), Options{}, "USER:PASSWORD"},
		{"unknown user", server("nobody:other", "postgres"), Options{}, "USER:PASSWORD"},
		{"missing database", server("postgres:"+password, "nowhere"), Options{}, "DATABASE"},
		{"user who may not write", server("poor:pw", "postgres"), Options{}, "USER"},
		{"user who may make no table", server("poor:pw", "postgres"), Options{Table: "of_the_poor"}, "USER"},
		{"user who may only read", server("reader:pw", "postgres"), Options{}, "USER"},
		{"table that there is not", server("postgres:"+password, "postgres"), Options{Table: "nowhere", NoCreate: true}, "table"},
		{"schema that there is not", server("postgres:"+password, "postgres"), Options{Table: "no.where"}, "table"},
		{"table of something else", server("postgres:"+password, "postgres"), Options{Table: "no_counters"}, "table"},
	} {
		t.Run(test.what, func(t *testing.T) {
			b := backend(t, test.server, &test.o)
			begin := time.Now()
			err := attempt(t, b, claim(t, "k", "a"))
			expect(t, test.what, err, lockspec.ErrConfig)
			expect(t, test.what, err, reference.ErrNotSent)
			var why *refusal.Error
			if !errors.As(err, &why) || why.Setting != test.setting {
				t.Errorf("it blames %+v, want %q", why, test.setting)
			}
			if err != nil && strings.Contains(err.Error(), password) {
				t.Errorf("it tells the password: %v", err)
			}
			if took := time.Since(begin); took > 4*time.Second {
				t.Errorf("it took %v", took)
			}
			if n := len(b.pool.slots); n != 0 {
				t.Errorf("%d connections are still in use", n)
			}
		})
	}
	// Without fencing nothing is written, so that the poorest user will do.
	grant(t, backend(t, server("reader:pw", "postgres"), &Options{Unfenced: true}), claim(t, "k2", "a"))
}

// TestUnreachable: nothing was sent, so nothing is in doubt, and nobody retries
// behind the engine's back.
func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := silent.Addr().String()
	must(t, silent.Close())
	begin := time.Now()
	err = attempt(t, backend(t, at(addr), nil), claim(t, "k", "a"))
	expect(t, "refused connection", err, lockspec.ErrUnavailable)
	expect(t, "refused connection", err, reference.ErrNotSent)
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// TestMeanings: every state, and none is contention or a loss.
func TestMeanings(t *testing.T) {
	rows := map[string]error{"XX000": lockspec.ErrUnavailable, "40001": lockspec.ErrUnavailable, "08006": lockspec.ErrUnavailable}
	for _, m := range meanings {
		rows[(m.state + "000")[:5]] = m.kind
	}
	for code, want := range rows {
		err := translate(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}))
		expect(t, code, err, want)
		for _, never := range []error{lockspec.ErrBusy, lockspec.ErrNotHeld, lockspec.ErrLost, lockspec.ErrTimeout} {
			if errors.Is(err, never) {
				t.Errorf("%s is %v", code, never)
			}
		}
	}
}

// TestFull: a way that has no connection left says so and does not wait for
// itself; so does a server.
func TestFull(t *testing.T) {
	l := newLab(t, own, "max_connections = 20")
	b := backend(t, at(l.Addr()), &Options{PoolSize: 2, Probe: time.Minute}) // nobody probes while the crowd comes
	grant(t, b, claim(t, "1", "a"))
	grant(t, b, claim(t, "2", "a"))
	begin := time.Now()
	err := attempt(t, b, claim(t, "3", "a"))
	expect(t, "the third of two", err, lockspec.ErrUnavailable)
	expect(t, "the third of two", err, reference.ErrNotSent)
	var why *refusal.Error
	if !errors.As(err, &why) || why.Setting != "pool_size" || time.Since(begin) > 2*time.Second {
		t.Errorf("after %v it blames %+v", time.Since(begin), why)
	}
	must(t, b.Release(t.Context(), claim(t, "1", "a")))
	grant(t, b, claim(t, "3", "a"))

	f := faults(t, l, nil)
	l.sql(t, `CREATE ROLE ordinary LOGIN PASSWORD 'pw'`)
	poor := backend(t, "postgres://ordinary:pw@"+l.Addr()+"/postgres?sslmode=disable", &Options{Unfenced: true})
	leave, err := f.Crowd(t.Context())
	must(t, err)
	err = attempt(t, poor, claim(t, "4", "a"))
	expect(t, "a server without a connection to spare", err, lockspec.ErrUnavailable)
	expect(t, "a server without a connection to spare", err, reference.ErrNotSent)
	expect(t, "a renewal meanwhile", b.Renew(t.Context(), claim(t, "3", "a")), nil)
	leave()
	soon(t, "there is room again", 2*time.Second, func() bool { return attempt(t, poor, claim(t, "4", "a")) == nil })
}

// TestPooler: one that swaps sessions lets two hold one lock, and keeps it when
// both have gone; so none is trusted that was not vouched for.
func TestPooler(t *testing.T) {
	l := newLab(t)
	for _, mode := range []string{"transaction", "session"} {
		addr, end, err := l.Pooler(t.Context(), mode)
		present(t, err)
		defer end()
		err = attempt(t, backend(t, at(addr), nil), claim(t, "k", "a"))
		expect(t, mode, err, lockspec.ErrConfig)
		var why *refusal.Error
		if !errors.As(err, &why) || !strings.Contains(why.Means, "pooler=session") {
			t.Errorf("%s: it does not say what to do: %v", mode, err)
		}
		if mode == "transaction" {
			continue
		}
		b := backend(t, at(addr), &Options{Pooler: SessionPooler, PoolSize: 1})
		c := claim(t, "k", "a")
		grant(t, b, c)
		expect(t, "a renewal through a pooler", b.Renew(t.Context(), c), nil)
		expect(t, "who comes past it", attempt(t, backend(t, at(l.Addr()), nil), claim(t, "k", "b")), lockspec.ErrBusy)
		must(t, b.Release(t.Context(), c))
		if d := b.Describe(); !contains(d.Hazards, lockspec.Pooler) {
			t.Errorf("hazards %v behind a pooler", d.Hazards)
		}
	}
}

func contains(all []lockspec.Hazard, h lockspec.Hazard) bool {
	for _, x := range all {
		if x == h {
			return true
		}
	}
	return false
}

// TestStandby grants locks of its own, and must not.
func TestStandby(t *testing.T) {
	l := newLab(t)
	s, err := l.Standby(t.Context())
	must(t, err)
	defer s.Close()
	err = attempt(t, backend(t, at(s.Addr()), nil), claim(t, "k", "a"))
	expect(t, "a standby", err, lockspec.ErrConfig)
	b := backend(t, at(s.Addr()), nil)
	b.primary.Store(true) // as one that was a primary when this way began
	expect(t, "a primary that has become a standby", attempt(t, b, claim(t, "k", "a")), lockspec.ErrUnavailable)
}

// TestRestart: locks are forgotten, tokens are not.
func TestRestart(t *testing.T) {
	l := newLab(t, own)
	f := faults(t, l, nil)
	b := backend(t, f.URL(), nil)
	c, other := claim(t, "k", "a"), claim(t, "k", "b")
	g := grant(t, b, c)
	must(t, f.Restart(t.Context()))
	lossOf(t, g, 2*time.Second)
	if next := grant(t, b, other); next.Token <= g.Token {
		t.Errorf("token %d after %d and a restart", next.Token, g.Token)
	}
	expect(t, "a ping", f.Ping(t.Context()), nil)
}

// TestFailover: the standby knows of no lock, the holder hears of it at once, and
// the tokens go on though the last of them were never replicated.
func TestFailover(t *testing.T) {
	l := newLab(t, own)
	f := faults(t, l, nil)
	b := backend(t, f.URL(), nil)
	c, other := claim(t, "k", "a"), claim(t, "k", "b")
	g := grant(t, b, c)
	must(t, f.Failover(t.Context()))
	lossOf(t, g, 2*time.Second)
	if next := grant(t, b, other); next.Token <= g.Token {
		t.Errorf("token %d after %d and a failover", next.Token, g.Token)
	}
}

// TestPing: a server that stands still because of a fault of ours is no sign of
// a stall.
func TestPing(t *testing.T) {
	l := newLab(t, own)
	f := faults(t, l, nil)
	expect(t, "a server that runs", f.Ping(t.Context()), nil)
	must(t, f.Stop(t.Context()))
	expect(t, "a server that we stopped", f.Ping(t.Context()), lockspec.ErrUnsupported)
	must(t, f.Continue(t.Context()))
	expect(t, "a server that goes on", f.Ping(t.Context()), nil)
}
