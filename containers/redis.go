package containers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// RedisOptions say how a Redis or Valkey runs.
type RedisOptions struct {
	Options

	// Program is its name or path; default: the first of redis-server and
	// valkey-server that is on PATH.
	Program string
	// Password of the default user; empty: none.
	Password string
	// Persist makes it write every command to disk before it answers
	// (appendfsync always); default: it keeps nothing.
	Persist bool
	// Directives are further lines of its configuration.
	Directives []string
}

var redisPrograms = []string{"redis-server", "valkey-server"}

// Redis starts a Redis or Valkey. An error matches *MissingError if there is
// none on this machine.
func Redis(ctx context.Context, o *RedisOptions) (Server, error) {
	if o == nil {
		o = &RedisOptions{}
	}
	path, err := find(o.Program, redisPrograms, "apt-get install redis-server")
	if err != nil {
		return nil, err
	}
	return startLocal(ctx, program{
		name: "redis", path: path, ready: redisReady,
		data: []string{"dump.rdb", "appendonlydir", "appendonly.aof"},
		prepare: func(folder string, port int) ([]string, error) {
			conf := filepath.Join(folder, "redis.conf")
			return []string{conf}, os.WriteFile(conf, []byte(o.config(folder, port)), 0o600)
		},
	}, &o.Options)
}

// find is the path of the named program, or of the first that there is.
func find(name string, programs []string, install string) (string, error) {
	if name != "" {
		programs = []string{name}
	}
	for _, p := range programs {
		if path, err := exec.LookPath(p); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", &MissingError{Programs: programs, Install: install}
}

// config is its configuration file: a command line would show the password to
// every user of the machine.
func (o *RedisOptions) config(folder string, port int) string {
	lines := []string{
		"bind 127.0.0.1", fmt.Sprintf("port %d", port), fmt.Sprintf("dir %q", folder),
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
