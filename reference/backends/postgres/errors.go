package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
)

// meaning is one line of the table of what a server's error means for a lock.
type meaning struct {
	state   string // SQLSTATE, or the class that it begins with
	kind    error
	setting string // that is wrong, as a URL has it; empty: none is
	means   string
}

// meanings is the table
// (https://www.postgresql.org/docs/current/errcodes-appendix.html). The first
// line that fits counts. What it does not list is an outage.
var meanings = []meaning{
	{"28", lockspec.ErrConfig, "USER:PASSWORD", "the server refuses the user or the password, or this way of coming in"},
	{"3D000", lockspec.ErrConfig, "DATABASE", "there is no database of that name"},
	{"25006", lockspec.ErrConfig, "USER", "the user may only read"},
	{"42501", lockspec.ErrConfig, "USER", "the user may not do what a lock needs: read and write the table of counters, or make it; or else fencing=off"},
	{"42P01", lockspec.ErrConfig, "table", "there is no such table of counters"},
	{"3F000", lockspec.ErrConfig, "table", "there is no schema of that name"},
	{"42", lockspec.ErrConfig, "table", "the table is none of counters"},
	{"22003", lockspec.ErrConfig, "table", "the counter of the key was overwritten with a number that cannot rise"},
	{"53300", lockspec.ErrUnavailable, "", "the server has no connection to spare"},
	{"53", lockspec.ErrUnavailable, "", "the server is short of memory or disk"},
	{"57P03", lockspec.ErrUnavailable, "", "the server is starting or ending"},
	{"57P", lockspec.ErrUnavailable, "", "the server ended the session"},
}

// translate says in the words of the contract why a call of the server failed.
func translate(err error) error {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		for _, m := range meanings {
			if strings.HasPrefix(said.Code, m.state) {
				return refusal.New(m.kind, m.setting, m.means, err)
			}
		}
	}
	return fmt.Errorf("%w: %w", lockspec.ErrUnavailable, err)
}

// unconnected says why there is no connection. Nothing was asked by it.
func unconnected(err error) error {
	if known := (*refusal.Error)(nil); errors.As(err, &known) {
		return err
	}
	err = translate(err)
	if cert := (*tls.CertificateVerificationError)(nil); errors.As(err, &cert) {
		return refusal.New(lockspec.ErrConfig, "sslmode", "the server's certificate is not what was asked for", err)
	}
	if !errors.Is(err, reference.ErrNotSent) {
		err = fmt.Errorf("%w: %w", reference.ErrNotSent, err)
	}
	return err
}

// state is the SQLSTATE of an error; empty: it is not the server's.
func state(err error) string {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code
	}
	return ""
}

// within ends with ctx, and after that time of this machine's clock; of a
// deadline of ctx it knows nothing, for an engine's clock need not be the one of
// this machine's sockets.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithTimeout(context.Background(), limit)
	stop := context.AfterFunc(ctx, cancel)
	return own, func() { stop(); cancel() }
}
