package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Standby is a PostgreSQL that follows another until it is promoted.
type Standby struct {
	*local
}

var _ Server = (*Standby)(nil)

// PostgresStandby starts a standby of a PostgreSQL that was started with the
// same options. It hears of what the primary writes after the primary has
// answered, and may miss the last of it. Both are programs of this machine; an
// error matches ErrUnsupported if the primary is a container.
func PostgresStandby(ctx context.Context, primary Server, o *PostgresOptions) (*Standby, error) {
	if o == nil {
		o = &PostgresOptions{}
	}
	switch primary.(type) {
	case *local, *Standby:
	default: // another major version than the one of this machine, as likely as not
		return nil, fmt.Errorf("%w: no standby is started of a PostgreSQL in a container", lockspec.ErrUnsupported)
	}
	p, err := postgresProgram(o)
	if err != nil {
		return nil, err
	}
	p.name = "postgres-standby"
	p.prepare = func(ctx context.Context, s *local, port int) ([]string, error) {
		if err := o.follow(ctx, s, primary.Addr()); err != nil {
			return nil, err
		}
		return postgresArguments(s, port), nil
	}
	s, err := startLocal(ctx, p, &o.Options)
	if err != nil {
		return nil, err
	}
	return &Standby{s}, nil
}

// follow copies the primary's data, unless there is some.
func (o *PostgresOptions) follow(ctx context.Context, s *local, primary string) error {
	data := filepath.Join(s.folder, dataFolder)
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(primary)
	if err != nil {
		return err
	}
	file := filepath.Join(s.folder, "password") // the standby reads it whenever it connects
	line := fmt.Sprintf("*:*:*:%s:%s\n", PostgresUser, o.Password)
	if err := errors.Join(os.WriteFile(file, []byte(line), 0o600), s.program.as.own(file)); err != nil {
		return err
	}
	from := url.Values{"host": {host}, "port": {port}, "user": {PostgresUser}, "passfile": {file}}
	return s.tool(ctx, filepath.Join(filepath.Dir(s.program.path), "pg_basebackup"),
		"-D", data, "-d", "postgres:///?"+from.Encode(), "--checkpoint=fast", "--write-recovery-conf", "--no-sync", "--wal-method=stream")
}

// Promote makes it a primary, whatever has become of the one that it followed.
func (s *Standby) Promote(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.run == nil {
		return errNotRunning
	}
	return s.tool(ctx, filepath.Join(filepath.Dir(s.program.path), "pg_ctl"), "promote", "--wait", "--silent", "-D", filepath.Join(s.folder, dataFolder))
}
