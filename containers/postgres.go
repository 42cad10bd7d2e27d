package containers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// PostgresUser is the superuser of every PostgreSQL that is started here, and
// the name of its database.
const PostgresUser = "postgres"

// PostgresOptions say how a PostgreSQL runs.
type PostgresOptions struct {
	Options

	// Bin is the folder of its programs; default: PATH, then where Debian and
	// the PostgreSQL project install them.
	Bin string
	// Password of the superuser; empty: everybody of this machine is let in.
	Password string
	// Settings are further lines of its configuration.
	Settings []string
}

const installPostgres = "apt-get install postgresql"

// postgresFolders are where its programs are if not on PATH.
var postgresFolders = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin"}

// Postgres starts a PostgreSQL whose data is on disk, but not forced there: it
// survives a crash of the server, not of the machine. An error matches
// *MissingError if there is none on this machine.
//
// PostgreSQL refuses to run as root. Started by root it runs as postgres or
// nobody, who must be able to enter the folder for temporary files.
func Postgres(ctx context.Context, o *PostgresOptions) (Server, error) {
	if o == nil {
		o = &PostgresOptions{}
	}
	p, err := postgresProgram(o)
	if err != nil {
		return nil, err
	}
	return startLocal(ctx, p, &o.Options)
}

func postgresProgram(o *PostgresOptions) (program, error) {
	name := ""
	if o.Bin != "" {
		name = filepath.Join(o.Bin, "postgres")
	}
	path, err := find(name, []string{"postgres"}, postgresFolders, installPostgres)
	if err != nil {
		return program{}, err
	}
	// Its other programs are beside it, not beside a link to it.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return program{}, err
	}
	as, err := unprivileged("postgres", "nobody")
	if err != nil {
		return program{}, err
	}
	return program{
		name: "postgres", path: path, as: as, env: plainEnv(), ready: postgresReady, data: []string{dataFolder},
		// A polite end waits for the clients; this one ends their sessions.
		end: interrupt,
		// Each of its processes leads a session, hence a group, of its own
		// (src/backend/utils/init/miscinit.c, InitPostmasterChild).
		forks: true,
		prepare: func(ctx context.Context, s *local, port int) ([]string, error) {
			if err := o.initialize(ctx, s); err != nil {
				return nil, err
			}
			return postgresArguments(s, port), nil
		},
	}, nil
}

const dataFolder = "data"

// plainEnv keeps a user's PGPORT and the like, and the language of messages,
// out of the programs of PostgreSQL.
func plainEnv() []string { return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"} }

func postgresArguments(s *local, port int) []string {
	return []string{"-D", filepath.Join(s.folder, dataFolder), "-p", fmt.Sprint(port)}
}

// initialize makes the data folder, unless there is one.
func (o *PostgresOptions) initialize(ctx context.Context, s *local) error {
	data := filepath.Join(s.folder, dataFolder)
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	}
	args := []string{"-D", data, "-U", PostgresUser, "--locale=C", "--encoding=UTF8", "--no-sync", "--no-instructions"}
	if o.Password == "" {
		args = append(args, "--auth=trust")
	} else {
		// A command line would show it to every user of the machine.
		file := filepath.Join(s.folder, "password")
		defer os.Remove(file)
		if err := errors.Join(os.WriteFile(file, []byte(o.Password), 0o600), s.program.as.own(file)); err != nil {
			return err
		}
		args = append(args, "--auth=scram-sha-256", "--pwfile="+file)
	}
	if err := s.tool(ctx, filepath.Join(filepath.Dir(s.program.path), "initdb"), args...); err != nil {
		return err
	}
	return o.configure(data)
}

// configure adds to the configuration that initdb wrote.
func (o *PostgresOptions) configure(data string) error {
	f, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	lines := append([]string{
		"listen_addresses = '127.0.0.1'", "unix_socket_directories = ''",
		"fsync = off", "full_page_writes = off", "shared_buffers = 16MB", "max_wal_size = 64MB", "min_wal_size = 32MB",
		"wal_level = replica", "wal_keep_size = 64MB", "max_wal_senders = 4", "max_replication_slots = 4", "hot_standby = on",
		"logging_collector = off", "log_destination = 'stderr'", "jit = off", "restart_after_crash = on",
	}, o.Settings...)
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// postgresReady says hello as a client does. One who is asked for a password,
// or let in, has found a server that serves; one that starts or ends answers
// with an error (https://www.postgresql.org/docs/current/protocol-flow.html).
func postgresReady(ctx context.Context, addr string) error {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	body := append(binary.BigEndian.AppendUint32(nil, 3<<16), "user\x00"+PostgresUser+"\x00database\x00"+PostgresUser+"\x00\x00"...)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(4+len(body))), body...)); err != nil {
		return err
	}
	kind := make([]byte, 1)
	if _, err := io.ReadFull(c, kind); err != nil {
		return err
	}
	if kind[0] == 'R' {
		return nil
	}
	why, _ := io.ReadAll(c)
	return fmt.Errorf("it answers %q", strings.Map(printable, string(why)))
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return ' '
	}
	return r
}
