package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// PgBouncerOptions say how a PgBouncer runs.
type PgBouncerOptions struct {
	Options

	// Program is its name or path; default: pgbouncer, on PATH or where Debian
	// installs it.
	Program string
	// Mode is its pool_mode: session, transaction, the default, or statement.
	Mode string
	// Password of the superuser of the server behind it; empty: it has none.
	Password string
	// PoolSize is how many sessions it has with the server; default 1, so that
	// two clients meet in one.
	PoolSize int
	// Settings are further lines of its configuration.
	Settings []string
}

// PgBouncer starts a pooler before a PostgreSQL that listens at server,
// host:port. An error matches *MissingError if there is none on this machine.
func PgBouncer(ctx context.Context, server string, o *PgBouncerOptions) (Server, error) {
	if o == nil {
		o = &PgBouncerOptions{}
	}
	path, err := find(o.Program, []string{"pgbouncer"}, []string{"/usr/sbin"}, "apt-get install pgbouncer")
	if err != nil {
		return nil, err
	}
	as, err := unprivileged("postgres", "nobody")
	if err != nil {
		return nil, err
	}
	return startLocal(ctx, program{
		name: "pgbouncer", path: path, as: as, env: plainEnv(), ready: postgresReady,
		prepare: func(_ context.Context, s *local, port int) ([]string, error) {
			conf, users := filepath.Join(s.folder, "pgbouncer.ini"), filepath.Join(s.folder, "users.txt")
			text, err := o.config(users, server, port)
			if err != nil {
				return nil, err
			}
			user := fmt.Sprintf("%q %q\n", PostgresUser, strings.ReplaceAll(o.Password, `"`, `""`))
			return []string{conf}, errors.Join(
				os.WriteFile(conf, []byte(text), 0o600), as.own(conf),
				os.WriteFile(users, []byte(user), 0o600), as.own(users))
		},
	}, &o.Options)
}

func (o *PgBouncerOptions) config(users, server string, port int) (string, error) {
	host, at, err := net.SplitHostPort(server)
	if err != nil {
		return "", err
	}
	mode, size, auth := o.Mode, max(o.PoolSize, 1), "scram-sha-256"
	if mode == "" {
		mode = "transaction"
	}
	if o.Password == "" {
		auth = "trust"
	}
	lines := append([]string{
		"[databases]", fmt.Sprintf("* = host=%s port=%s", host, at),
		"[pgbouncer]", "listen_addr = 127.0.0.1", fmt.Sprintf("listen_port = %d", port), "unix_socket_dir =",
		"auth_type = " + auth, "auth_file = " + users, "pool_mode = " + mode, fmt.Sprintf("default_pool_size = %d", size),
		"server_login_retry = 1", "ignore_startup_parameters = extra_float_digits",
	}, o.Settings...)
	return strings.Join(lines, "\n") + "\n", nil
}
