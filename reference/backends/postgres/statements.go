package postgres

import "fmt"

// The statements that a session prepares. Each is one round trip.
const (
	acquireName = "lockcheck_acquire"
	probeName   = "lockcheck_probe"
	releaseName = "lockcheck_release"
)

// acquireSQL takes the lock $1 and gives a row with its token; no row: it is
// held by another.
//
// The token is the larger of the last one and one, and of the server's clock in
// microseconds, as a counter may be lost: a standby that is promoted need not
// know the last ones. Only who holds the lock touches the row of its counter, so
// nobody waits for it; and ON CONFLICT takes the newest version of a row, though
// the statement began before the lock was free.
func (o *Options) acquireSQL() string {
	if o.Unfenced {
		return "SELECT 0 WHERE pg_try_advisory_lock($1)"
	}
	return fmt.Sprintf(`INSERT INTO %s AS f (key, token)
SELECT $1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint WHERE pg_try_advisory_lock($1)
ON CONFLICT (key) DO UPDATE SET token = greatest(f.token + 1, excluded.token) RETURNING token`, o.Table)
}

// probeSQL says whether this very session holds the lock $1. A pooler may have
// put another backend behind the connection: $2 is the one that took the lock.
const probeSQL = `SELECT NOT pg_is_in_recovery() AND pg_backend_pid() = $2 AND EXISTS (
SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted AND objsubid = 1
AND (classid::bigint << 32 | objid::bigint) = $1)`

const releaseSQL = "SELECT pg_advisory_unlock($1)"

// CreateTable is the statement that makes the table of counters, which every
// user of a lock may read and write. A row is never deleted: tokens would start
// anew.
func CreateTable(name string) string {
	return "CREATE TABLE IF NOT EXISTS " + name + " (key bigint PRIMARY KEY, token bigint NOT NULL)"
}

// configureSQL makes a session fit for locks, whatever the defaults of the
// server and the user are. It is no part of the connection's start, where a
// pooler would refuse it.
func (o *Options) configureSQL() string {
	idle, interval, count, userTimeout := o.keepalive()
	return fmt.Sprintf(`SET tcp_keepalives_idle = %d; SET tcp_keepalives_interval = %d; SET tcp_keepalives_count = %d;
SET tcp_user_timeout = %d; SET default_transaction_isolation = 'read committed'; SET statement_timeout = 0;
SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0`, idle, interval, count, userTimeout)
}

// newerSQL are settings that not every server has: it is set where it is.
const newerSQL = `SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'`

// greetSQL asks who answers.
const greetSQL = "SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('server_version')"
