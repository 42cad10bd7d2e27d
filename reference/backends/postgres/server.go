package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
)

// Server is what is known of one server.
type Server struct {
	Version string
	Pooled  bool // a pooler stands before it
}

// Look reaches the server, takes and gives back a key of its own, and tells
// what is known of the server. An error says why no lock can be had there.
func (b *Backend) Look(ctx context.Context) (*Server, error) {
	c := reference.Claim{Key: probeKey + rand.Text(), Owner: rand.Text(), Count: 1}
	if _, err := b.Attempt(ctx, c); err != nil {
		return nil, err
	}
	if err := b.Release(ctx, c); err != nil {
		return nil, err
	}
	return b.server.Load(), nil
}

// probeKey begins the names of keys that no lock has.
const probeKey = "lockcheck-probe/"

// connect makes a session that is fit for a lock, or says why there is none.
func (b *Backend) connect(ctx context.Context) (*session, error) {
	ctx, cancel := within(ctx, callLimit)
	defer cancel()
	config := b.config.Copy()
	var raw net.Conn
	var done atomic.Bool
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		// pgx asks a server to cancel what a broken connection was doing; one
		// that was closed does nothing that would be worth a connection.
		if done.Load() {
			return nil, net.ErrClosed
		}
		c, err := b.opts.Dial(ctx, network, addr)
		raw = c
		return c, err
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, unconnected(err)
	}
	pid, err := b.greet(ctx, conn)
	done.Store(true)
	if err != nil {
		_ = raw.Close()
		return nil, unconnected(err)
	}
	return newSession(conn, raw, pid), nil
}

// greet gets to know whom a new connection reaches, and makes it fit. It gives
// the number of the backend's process.
func (b *Backend) greet(ctx context.Context, c *pgconn.PgConn) (pid string, err error) {
	row, err := first(ctx, c, greetSQL)
	if err != nil {
		return "", err
	}
	s := &Server{Version: row[2], Pooled: row[0] != fmt.Sprint(c.PID())}
	if s.Pooled && b.opts.Pooler == NoPooler {
		return "", refusal.New(lockspec.ErrConfig, "HOST:PORT",
			"a pooler stands before the server, and locks belong to sessions; go past it, or say pooler=session if it gives each client a session of its own", nil)
	}
	if row[1] == "t" {
		return "", b.standby()
	}
	if _, err := c.Exec(ctx, b.opts.configureSQL()).ReadAll(); err != nil {
		return "", err
	}
	if err := b.prepare(ctx, c); err != nil {
		return "", err
	}
	b.primary.Store(true)
	b.server.Store(s)
	return row[0], nil
}

// standby: a server that was a primary is being failed over, and one will be
// again. One that has been a standby from the first connection on is the wrong
// server, and no retry turns it into the right one.
func (b *Backend) standby() error {
	if b.primary.Load() {
		return refusal.New(lockspec.ErrUnavailable, "", "the server has become a standby", nil)
	}
	return refusal.New(lockspec.ErrConfig, "HOST:PORT", "the server is a standby; it grants locks of its own, which exclude nobody at the primary", nil)
}

// prepare makes the statements, and the table if that is what is missing.
func (b *Backend) prepare(ctx context.Context, c *pgconn.PgConn) error {
	err := b.statements(ctx, c)
	if state(err) != undefinedTable || b.opts.NoCreate {
		return err
	}
	if _, err := c.Exec(ctx, CreateTable(b.opts.Table)).ReadAll(); err != nil && !slices.Contains(madeMeanwhile, state(err)) {
		return err
	}
	return b.statements(ctx, c)
}

const undefinedTable = "42P01"

// madeMeanwhile are the answers to who makes a table in the same moment as
// another, whatever IF NOT EXISTS says: the name is taken in a catalogue, as that
// of a table, or as that of its type.
var madeMeanwhile = []string{"23505", "42P07", "42710"}

func (b *Backend) statements(ctx context.Context, c *pgconn.PgConn) error {
	p := c.StartPipeline(ctx)
	for _, s := range []struct{ name, sql string }{{acquireName, b.opts.acquireSQL()}, {probeName, probeSQL}, {releaseName, releaseSQL}} {
		p.SendPrepare(s.name, s.sql, nil)
	}
	p.SendQueryParams(newerSQL, nil, nil, nil, nil)
	if err := p.Sync(); err != nil {
		return errors.Join(err, p.Close())
	}
	return p.Close() // it reads all answers, and gives the first error
}

// first is the first row of a query.
func first(ctx context.Context, c *pgconn.PgConn, sql string) ([]string, error) {
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 || len(results[0].Rows) == 0 {
		return nil, errNoRow
	}
	var row []string
	for _, v := range results[0].Rows[0] {
		row = append(row, string(v))
	}
	return row, nil
}

var errNoRow = errors.New("the server gave no row")

// Sweep removes the table of counters. It is for a run that had one of its own.
func (b *Backend) Sweep(ctx context.Context) error {
	if b.opts.Unfenced {
		return nil
	}
	s, err := b.pool.take(ctx)
	if err != nil {
		return err
	}
	err = s.do(ctx, func(c *pgconn.PgConn) error {
		_, err := c.Exec(context.Background(), "DROP TABLE IF EXISTS "+b.opts.Table).ReadAll()
		return err
	})
	b.pool.drop(s, nil)
	return err
}
