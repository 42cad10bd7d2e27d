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
// *MissingError if there is none.
//
// PostgreSQL refuses to run as root. A program of this machine that root starts
// runs as postgres or nobody, who must be able to enter the folder for temporary
// files; in a container it runs as its postgres.
func Postgres(ctx context.Context, o *PostgresOptions) (Server, error) {
	if o == nil {
		o = &PostgresOptions{}
	}
	return kind{func() (program, error) { return postgresProgram(o) }, o.image()}.start(ctx, &o.Options)
}

// image is how it runs in a container. Debian has its programs not on PATH; the
// folder of its data is made there once, in one step.
func (o *PostgresOptions) image() Image {
	const conf, hba, password, start, data = "/lockcheck/conf", "/lockcheck/hba", "/lockcheck/password", "/lockcheck/start", "/var/lib/postgresql/lockcheck"
	return Image{
		Kind: "postgres", Name: "postgres:18", Port: 5432, User: "postgres", End: "SIGINT", Ready: postgresReady,
		At: func(bind string, port int) ([]string, map[string]string) {
			auth, secret := o.auth(password)
			lines := []string{
				"set -e", "export LC_ALL=C", `for bin in /usr/lib/postgresql/*/bin; do PATH=$bin:$PATH; done`,
				"if [ ! -e " + data + " ]; then",
				"rm -rf " + data + ".new",
				"initdb -D " + data + ".new " + strings.Join(append(initArguments(), auth...), " "),
				"cat " + conf + " >>" + data + ".new/postgresql.conf",
				"cat " + hba + " >>" + data + ".new/pg_hba.conf",
				"mv " + data + ".new " + data,
				"fi",
				fmt.Sprintf("exec postgres -D %s -p %d", data, port),
			}
			files := map[string]string{
				start: strings.Join(lines, "\n") + "\n",
				conf:  o.config(bind),
				// Beyond the loopback interface that initdb thinks of.
				hba: "host all all all " + strings.TrimPrefix(auth[0], "--auth=") + "\n",
			}
			if secret {
				files[password] = o.Password
			}
			return []string{"sh", start}, files
		},
	}
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
	file := filepath.Join(s.folder, "password")
	auth, secret := o.auth(file)
	if secret {
		defer os.Remove(file)
		if err := errors.Join(os.WriteFile(file, []byte(o.Password), 0o600), s.program.as.own(file)); err != nil {
			return err
		}
	}
	args := append(append([]string{"-D", data}, initArguments()...), auth...)
	if err := s.tool(ctx, filepath.Join(filepath.Dir(s.program.path), "initdb"), args...); err != nil {
		return err
	}
	return o.configure(data)
}

func initArguments() []string {
	return []string{"-U", PostgresUser, "--locale=C", "--encoding=UTF8", "--no-sync", "--no-instructions"}
}

// auth are the arguments of initdb that say who is let in; a password is in the
// file, for a command line would show it to every user of the machine.
func (o *PostgresOptions) auth(file string) (args []string, secret bool) {
	if o.Password == "" {
		return []string{"--auth=trust"}, false
	}
	return []string{"--auth=scram-sha-256", "--pwfile=" + file}, true
}

// configure adds to the configuration that initdb wrote.
func (o *PostgresOptions) configure(data string) error {
	f, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(o.config("127.0.0.1"))
	return errors.Join(err, f.Close())
}

func (o *PostgresOptions) config(bind string) string {
	return strings.Join(append([]string{
		"listen_addresses = '" + bind + "'", "unix_socket_directories = ''",
		"fsync = off", "full_page_writes = off", "shared_buffers = 16MB", "max_wal_size = 64MB", "min_wal_size = 32MB",
		"wal_level = replica", "wal_keep_size = 64MB", "max_wal_senders = 4", "max_replication_slots = 4", "hot_standby = on",
		"logging_collector = off", "log_destination = 'stderr'", "jit = off", "restart_after_crash = on",
	}, o.Settings...), "\n") + "\n"
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
