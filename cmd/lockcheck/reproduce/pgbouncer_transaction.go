package reproduce

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

var pgbouncerTransaction = Story{
	Name:   "pgbouncer-transaction",
	Title:  "Two clients of a PgBouncer that pools transactions are given one session of the server in turn. A session's lock is granted to both.",
	Source: "vectorize-io/hindsight#726, goauthentik/authentik#23876",
	Shown:  Play{Target: "postgres through PgBouncer, pool_mode = transaction", Own: &twoClients, Start: pooled("transaction"), Sign: fails(checker.Overlap, "entitled")},
	Cure:   "pool_mode = session: a client keeps its session for as long as it stays.",
	Cured:  Play{Target: "postgres through PgBouncer, pool_mode = session", Own: &twoClients, Start: pooled("session"), Sign: passes},
}

var twoClients = contract.Case{ID: "Y02", Suite: contract.ChaosSuite, Group: "story", Level: contract.ClientLevel, Since: "1",
	Name: "the second client is told that the key is held",
	Why:  "a session that is shared holds for everybody",
	Run: func(ctx context.Context, e *contract.Env) {
		first, second := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
		r := lockspec.Request{Key: e.Key("k")}
		t, err := first.Acquire(ctx, r)
		if err != nil {
			e.Inconclusive("the first client: %v", err)
			return
		}
		other, err := second.Acquire(ctx, r)
		e.Story("the first client holds; the second asked and was answered %s", lockspec.OutcomeOf(err))
		if err == nil {
			_ = e.Release(ctx, other)
			other.Stop()
		}
		_ = e.Release(ctx, t)
		t.Stop()
	}}

// pooled is a PostgreSQL behind a PgBouncer, and clients that do not look what
// they are connected to.
func pooled(mode string) func(context.Context, containers.Options) (contract.Harness, func() error, error) {
	return func(ctx context.Context, servers containers.Options) (contract.Harness, func() error, error) {
		password := rand.Text()
		server, err := containers.Postgres(ctx, &containers.PostgresOptions{Options: servers, Password: password})
		if err != nil {
			return nil, nil, err
		}
		pooler, err := containers.PgBouncer(ctx, server.Addr(), &containers.PgBouncerOptions{Options: servers, Mode: mode, Password: password})
		if err != nil {
			return nil, nil, errors.Join(err, server.Close())
		}
		u := url.URL{Scheme: "postgres", User: url.UserPassword(containers.PostgresUser, password), Host: pooler.Addr(),
			Path: "/" + containers.PostgresUser, RawQuery: "sslmode=disable"}
		return &trusting{u.String()}, func() error { return errors.Join(pooler.Close(), server.Close()) }, nil
	}
}

// trusting opens connections and takes each for a session.
type trusting struct{ url string }

// Describe implements contract.Harness.
func (h *trusting) Describe() lockspec.Description {
	return lockspec.Description{Name: "pg_try_advisory_lock on a connection", Class: lockspec.Session, Bounds: lockspec.Bounds{Takeover: 5 * time.Second}}
}

// Open implements contract.Harness.
func (h *trusting) Open(ctx context.Context, _ string) (lockspec.Client, error) {
	c, err := pgconn.Connect(ctx, h.url)
	if err != nil {
		return nil, err
	}
	return &connection{c}, nil
}

// connection is a client whose locks are those of its connection.
type connection struct{ *pgconn.PgConn }

// Close implements lockspec.Client.
func (c *connection) Close() error { return c.PgConn.Close(context.Background()) }

// Acquire implements lockspec.Client.
func (c *connection) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(r.Key))
	l := advisory{c, int64(hash.Sum64())}
	ok, err := l.ask(ctx, "pg_try_advisory_lock")
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", lockspec.ErrUnavailable, err)
	case !ok:
		return nil, lockspec.ErrBusy
	}
	return l, nil
}

type advisory struct {
	c  *connection
	id int64
}

func (l advisory) ask(ctx context.Context, function string) (bool, error) {
	results, err := l.c.Exec(ctx, fmt.Sprintf("SELECT %s(%d)", function, l.id)).ReadAll()
	return err == nil && string(results[0].Rows[0][0]) == "t", err
}

// Granted implements lockspec.Lease: a session holds it.
func (l advisory) Granted() time.Duration { return 0 }

// Release implements lockspec.Lease.
func (l advisory) Release(ctx context.Context) error {
	ok, err := l.ask(ctx, "pg_advisory_unlock")
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", lockspec.ErrUnavailable, err)
	case !ok:
		return lockspec.ErrNotHeld
	}
	return nil
}
