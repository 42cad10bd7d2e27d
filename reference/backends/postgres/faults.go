package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/interference"
	"github.com/lockcheck/lockcheck/reference/backends/relay"
)

// Started is a server that the harness started itself. Faults act on no other.
type Started interface {
	Addr() string                      // host:port; may change with a restart
	Restart(ctx context.Context) error // as a crash does; what is on disk stays
	Kill() error
	Pause() error
	Resume() error
	// Standby starts a standby of it, for as long as it is not closed.
	Standby(ctx context.Context) (Standby, error)
	// Pooler starts a PgBouncer of that pool_mode before it, for as long as it
	// is not ended.
	Pooler(ctx context.Context, mode string) (addr string, end func() error, err error)
}

// Standby is a standby that the harness started itself.
type Standby interface {
	Addr() string
	Promote(ctx context.Context) error
	Close() error
}

// Faults are the powers over a server that was started for a run. Clients reach
// the server by a relay, which counts, loses and holds back requests.
type Faults struct {
	server Started
	url    url.URL // of the server, with its superuser
	opts   Options
	relay  *relay.Relay
	admin  admin // does what the harness does
	pulse  admin // asks for signs of life

	silence interference.Silence
	mu      sync.Mutex
	guests  map[string]*guest
	next    Standby // that has taken over; nil: none has
}

var _ interface {
	contract.TrafficCounter
	contract.Interferer
	contract.Evicter
	contract.Restarter
	contract.Stopper
	contract.Inspector
	contract.Emptier
	contract.Misdirector
	contract.Pinger
} = (*Faults)(nil)

// NewFaults puts a relay before the server. The user is its superuser; the
// options are those of the clients.
func NewFaults(server Started, user *url.Userinfo, database string, opts *Options) (*Faults, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Faults{server: server, opts: o, guests: map[string]*guest{}}
	f.url = url.URL{Scheme: "postgres", User: user, Path: "/" + database, RawQuery: "sslmode=disable"}
	f.admin.url = func() string { return f.at(f.primary()) }
	f.pulse.url = f.admin.url
	f.relay, err = relay.New(server.Addr(), newWire)
	return f, err
}

// at is the URL of the same database at another address.
func (f *Faults) at(addr string) string {
	u := f.url
	u.Host = addr
	return u.String()
}

// primary is where the server itself listens.
func (f *Faults) primary() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != nil {
		return f.next.Addr()
	}
	return f.server.Addr()
}

// URL is how clients reach the server, for [New].
func (f *Faults) URL() string { return f.at(f.relay.Addr()) }

// Close ends the relay and its connections, and a standby, not the server.
func (f *Faults) Close() error {
	err := f.relay.Close()
	f.admin.close()
	f.pulse.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.guests {
		g.leave()
	}
	if f.next != nil {
		err = errors.Join(err, f.next.Close())
	}
	return err
}

// wire is the word of the relay for a key; empty: every key.
func (f *Faults) number(key string) string {
	if key == "" {
		return ""
	}
	return strconv.FormatInt(f.opts.id(key), 10)
}

// Requests implements contract.TrafficCounter.
func (f *Faults) Requests(_ context.Context, op, key string) (int, error) {
	return f.relay.Requests(op, f.number(key)), nil
}

// Interfere implements contract.Interferer.
func (f *Faults) Interfere(_ context.Context, what contract.Interference, op, key string, times int) (contract.Struck, error) {
	return f.relay.Interfere(interference.Kind(what), op, f.number(key), times)
}

// Ping implements contract.Pinger: it asks the server itself, past the relay.
func (f *Faults) Ping(ctx context.Context) error {
	return f.silence.Ping(ctx, func(ctx context.Context) error { return f.pulse.exec(ctx, "SELECT 1") })
}

// holders is who holds the lock of a number in this database.
const holders = ` FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND (classid::bigint << 32 | objid::bigint) = %d`

// Evict implements contract.Evicter: it ends the session that holds the key.
func (f *Faults) Evict(ctx context.Context, key string) error {
	rows, err := f.admin.query(ctx, fmt.Sprintf("SELECT pg_terminate_backend(pid, 2000)"+holders, f.opts.id(key)))
	if err == nil && len(rows) == 0 {
		return fmt.Errorf("%w: evict: nobody holds the key", lockspec.ErrNotHeld)
	}
	return err
}

// Restart implements contract.Restarter.
func (f *Faults) Restart(ctx context.Context) error {
	defer f.silence.Begin()()
	if err := f.server.Restart(ctx); err != nil {
		return err
	}
	f.relay.Move(f.server.Addr())
	return nil
}

// Stop implements contract.Stopper: every process of the server stands still.
func (f *Faults) Stop(context.Context) error { return f.silence.Stop(f.server.Pause) }

// Continue implements contract.Stopper.
func (f *Faults) Continue(context.Context) error { return f.silence.Continue(f.server.Resume) }

// Failover kills the primary and promotes a standby, which clients reach from
// then on. It knows of no lock.
func (f *Faults) Failover(ctx context.Context) error {
	defer f.silence.Begin()()
	s, err := f.server.Standby(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(f.server.Kill(), s.Promote(ctx)); err != nil {
		return errors.Join(err, s.Close())
	}
	f.mu.Lock()
	f.next = s
	f.mu.Unlock()
	f.relay.Move(s.Addr())
	return nil
}

// Crowd takes every connection that the server has for ordinary users, until
// the function is called.
func (f *Faults) Crowd(ctx context.Context) (leave func(), err error) {
	user, password := "lockcheck_crowd", rand.Text()
	if err := f.role(ctx, user, password, ""); err != nil {
		return nil, err
	}
	u := f.url
	u.Host, u.User = f.primary(), url.UserPassword(user, password)
	var crowd []*pgconn.PgConn
	leave = func() {
		for _, c := range crowd {
			_ = c.Close(context.Background())
		}
	}
	for {
		c, err := pgconn.Connect(ctx, u.String())
		if state(err) == "53300" {
			return leave, nil
		}
		if err != nil {
			leave()
			return nil, err
		}
		crowd = append(crowd, c)
	}
}

// role makes a user, with what is to be set for him.
func (f *Faults) role(ctx context.Context, name, password, set string) error {
	return f.admin.exec(ctx, fmt.Sprintf(`DO $$ BEGIN CREATE ROLE %[1]s LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
ALTER ROLE %[1]s PASSWORD '%[2]s'; %[3]s`, name, password, set))
}

// Inspect implements contract.Inspector. A session has no other name than the
// number of its process, unless it was seeded.
func (f *Faults) Inspect(ctx context.Context, key string) ([]contract.Holder, error) {
	token := "0"
	if !f.opts.Unfenced {
		if err := f.admin.exec(ctx, CreateTable(f.opts.Table)); err != nil {
			return nil, err
		}
		token = fmt.Sprintf("coalesce((SELECT token FROM %s WHERE key = %d), 0)", f.opts.Table, f.opts.id(key))
	}
	rows, err := f.admin.query(ctx, fmt.Sprintf(
		"SELECT coalesce((SELECT nullif(application_name, '') FROM pg_stat_activity a WHERE a.pid = pg_locks.pid), 'process ' || pid), %s"+holders, token, f.opts.id(key)))
	var all []contract.Holder
	for _, row := range rows {
		h := contract.Holder{Owner: row[0]}
		if h.Token, err = strconv.ParseInt(row[1], 10, 64); err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, err
}

// guest is a stranger who holds a key.
type guest struct {
	conn  *pgconn.PgConn
	limit *time.Timer
}

func (g *guest) leave() {
	g.limit.Stop()
	_ = g.conn.Conn().Close()
}

// Seed implements contract.Inspector: a session of the stranger's own takes the
// key as anybody does, with a token, once its holder is gone.
func (f *Faults) Seed(ctx context.Context, key, owner string, lease time.Duration) error {
	if err := f.Evict(ctx, key); err != nil && !errors.Is(err, lockspec.ErrNotHeld) {
		return err
	}
	c, err := pgconn.Connect(ctx, f.at(f.primary())+"&application_name="+url.QueryEscape(owner))
	if err != nil {
		return err
	}
	if !f.opts.Unfenced {
		if _, err := c.Exec(ctx, CreateTable(f.opts.Table)).ReadAll(); err != nil {
			return errors.Join(err, c.Close(ctx))
		}
	}
	got, err := first(ctx, c, strings.ReplaceAll(f.opts.acquireSQL(), "$1", f.number(key)))
	if err != nil || got == nil {
		return errors.Join(err, c.Close(ctx))
	}
	g := &guest{conn: c}
	g.limit = time.AfterFunc(lease, g.leave)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.guests[key] = g
	return nil
}

// Empty implements contract.Emptier: no session is left, and no table.
func (f *Faults) Empty(ctx context.Context) error {
	return f.admin.exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid(); DROP TABLE IF EXISTS `+f.opts.Table)
}

// OpenAt implements contract.Misdirector.
func (f *Faults) OpenAt(ctx context.Context, what contract.Misdirection) (lockspec.Client, error) {
	o, u, end := f.opts, f.url, func() error { return nil }
	u.Host = f.relay.Addr()
	var err error
	switch {
	case what == contract.WrongCredentials:
		u.User = url.UserPassword(u.User.Username(), rand.Text())
	case what == contract.MissingStorage && !o.Unfenced:
		o.Table, o.NoCreate = "lockcheck_nowhere", true
	case what == contract.ReadOnly && !o.Unfenced:
		password := rand.Text()
		u.User = url.UserPassword("lockcheck_reader", password)
		err = f.role(ctx, "lockcheck_reader", password, "ALTER ROLE lockcheck_reader SET default_transaction_read_only = on")
	case what == contract.ThroughPooler:
		u.Host, end, err = f.server.Pooler(ctx, "transaction")
	case what == contract.AtReplica:
		var s Standby
		if s, err = f.server.Standby(ctx); err == nil {
			u.Host, end = s.Addr(), s.Close
		}
	default:
		err = fmt.Errorf("%w: these locks have no client %s", lockspec.ErrUnsupported, what)
	}
	if err != nil {
		return nil, err
	}
	c, err := open(u.String(), &o)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return ending{c, end}, nil
}

func open(server string, o *Options) (lockspec.Client, error) {
	b, err := New(server, o)
	if err != nil {
		return nil, err
	}
	e, err := reference.New(b, nil)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return e.Client(), nil
}

// ending is a client whose server ends with it.
type ending struct {
	lockspec.Client
	end func() error
}

func (c ending) Close() error { return errors.Join(c.Client.Close(), c.end()) }
