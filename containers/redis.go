package containers

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// RedisOptions say how a Redis or Valkey runs.
type RedisOptions struct {
	Options

	// Program is its name or path; default: that of the function that starts it.
	Program string
	// Password of the default user; empty: none.
	Password string
	// Persist makes it write every command to disk before it answers
	// (appendfsync always); default: it keeps nothing.
	Persist bool
	// Directives are further lines of its configuration.
	Directives []string
}

// Redis starts a Redis; a program of this machine may be a Valkey, if there is
// no other. An error matches *MissingError if there is neither.
func Redis(ctx context.Context, o *RedisOptions) (Server, error) {
	return startRedis(ctx, o, Image{Kind: "redis", Name: "redis:8"},
		"apt-get install redis-server", "redis-server", "valkey-server")
}

// Valkey starts a Valkey. An error matches *MissingError if there is none.
func Valkey(ctx context.Context, o *RedisOptions) (Server, error) {
	return startRedis(ctx, o, Image{Kind: "valkey", Name: "valkey/valkey:9"},
		"apt-get install valkey-server (Debian 13 or newer)", "valkey-server")
}

// startRedis starts one of the programs, or the first of them in a container.
func startRedis(ctx context.Context, o *RedisOptions, image Image, install string, programs ...string) (Server, error) {
	if o == nil {
		o = &RedisOptions{}
	}
	const conf, inside = "redis.conf", "/lockcheck" // in a container
	data := path.Join(inside, "data")
	if !o.Persist {
		image.Scratch = data
	}
	image.Port, image.Ready = 6379, redisReady
	image.At = func(bind string, port int) ([]string, map[string]string) {
		file := path.Join(inside, conf)
		// A folder is there once a file is in it.
		return []string{cmp.Or(o.Program, programs[0]), file}, map[string]string{file: o.config(data, bind, port), path.Join(data, "here"): ""}
	}
	local := func() (program, error) {
		path, err := find(o.Program, programs, nil, install)
		return program{
			name: image.Kind, path: path, ready: redisReady,
			data: []string{"dump.rdb", "appendonlydir", "appendonly.aof"},
			prepare: func(_ context.Context, s *local, port int) ([]string, error) {
				file := filepath.Join(s.folder, conf)
				return []string{file}, os.WriteFile(file, []byte(o.config(s.folder, "127.0.0.1", port)), 0o600)
			},
		}, err
	}
	return kind{local, image}.start(ctx, &o.Options)
}

// config is its configuration file: a command line would show the password to
// every user of the machine.
func (o *RedisOptions) config(folder, bind string, port int) string {
	lines := []string{
		"bind " + bind, "protected-mode no", fmt.Sprintf("port %d", port), fmt.Sprintf("dir %q", folder),
		"daemonize no", `logfile ""`, `save ""`, "appendonly no",
		"maxmemory-policy noeviction", "repl-diskless-sync-delay 0",
	}
	if o.Persist {
		lines = append(lines, "appendonly yes", "appendfsync always")
	}
	if o.Password != "" {
		lines = append(lines, fmt.Sprintf("requirepass %q", o.Password))
	}
	lines = append(lines, o.Directives...)
	return strings.Join(lines, "\n") + "\n"
}

// redisReady asks for a PONG. One who wants a password first serves too; one
// who still loads does not.
func redisReady(ctx context.Context, addr string) error {
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err
	}
	if strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH") {
		return nil
	}
	return errors.New(strings.TrimSpace(line))
}
