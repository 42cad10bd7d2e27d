package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// Server is what is known of one server. What it can do is found by trying:
// version numbers lie about forks, and a failover may bring an older one to
// the same address.
type Server struct {
	RunID    string // drawn by the server when it starts
	Name     string // redis or valkey
	Version  string
	Policy   string // maxmemory-policy; empty: not told
	Primary  bool   // it said so
	Replica  bool   // it said so
	Replicas int    // connected to it

	SetNXGet bool // SET with NX and GET (Redis 7.0)
	IFEQ     bool // SET with IFEQ (Redis 8.4, Valkey 8.1)
	DELIFEQ  bool // Valkey 9.0
	DELEX    bool // Redis 8.4
}

// deletes is the native command that deletes a key of the owner, or nil where
// there is none to be used.
func (s *Server) deletes(by ReleaseBy, name, owner string) []any {
	switch {
	case s == nil || by == ReleaseLua:
		return nil
	case by == ReleaseDELEX && s.DELEX:
		return []any{"DELEX", name, "IFEQ", owner}
	case s.DELIFEQ:
		return []any{"DELIFEQ", name, owner}
	}
	return nil
}

// Evicts says whether the server may drop a lock when it is out of memory:
// locks expire, so they are what a volatile policy takes.
func (s *Server) Evicts() bool { return s.Policy != "" && s.Policy != "noeviction" }

// Warnings lists what about the server endangers locks.
func (s *Server) Warnings() []string {
	var all []string
	if s.Evicts() {
		all = append(all, fmt.Sprintf("maxmemory-policy %s lets the server evict locks when it is out of memory; set it to noeviction", s.Policy))
	}
	if s.Replicas > 0 {
		all = append(all, fmt.Sprintf("%d replicas are connected: after a failover they may not know of a grant (class replicated-lease)", s.Replicas))
	}
	return all
}

// Look reaches the server, takes and gives back a key of its own, and tells
// what is known of the server; nil: it tells nothing of itself. An error says
// why no lock can be had there.
func (b *Backend) Look(ctx context.Context) (*Server, error) {
	c := reference.Claim{Key: probeKey + rand.Text(), Owner: rand.Text(), Lease: time.Second, Count: 1}
	if _, err := b.Attempt(ctx, c); err != nil {
		return nil, err
	}
	if err := b.Release(ctx, c); err != nil {
		return nil, err
	}
	if err := b.client.Del(ctx, b.opts.fenceKey(c.Key)).Err(); err != nil {
		return nil, b.translate(err)
	}
	return b.server.Load(), nil
}

// greet gets to know the server of a new connection, unless it is known, and
// gives it the scripts. A server that tells nothing of itself is asked for
// nothing but scripts.
func (b *Backend) greet(ctx context.Context, c *goredis.Conn) error {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		if refusedToTell(err) {
			return nil
		}
		return err
	}
	s := readInfo(info)
	if known := b.server.Load(); known != nil && known.RunID == s.RunID {
		return nil
	}
	if !b.probing.CompareAndSwap(false, true) {
		return nil // another connection gets to know it; one of many is enough
	}
	defer b.probing.Store(false)
	if err := s.probe(ctx, c, b.opts.lockKey(probeKey+rand.Text())); err != nil {
		return err
	}
	b.server.Store(s)
	if s.Primary {
		b.primary.Store(true)
	}
	for _, text := range s.Warnings() {
		b.opts.Warn(text)
	}
	return nil
}

// refusedToTell: the user may not ask, or INFO has another name here.
func refusedToTell(err error) bool {
	return goredis.HasErrorPrefix(err, "NOPERM") || goredis.HasErrorPrefix(err, "unknown command")
}

func readInfo(info string) *Server {
	s := &Server{Name: "redis"}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "run_id":
			s.RunID = value
		case "redis_version":
			if s.Version == "" {
				s.Version = value
			}
		case "valkey_version":
			s.Name, s.Version = "valkey", value
		}
	}
	return s
}

// probeKey begins the names of keys that no lock has.
const probeKey = "lockcheck-probe/"

// probe finds out what the server can do, on a key that does not exist: IFEQ
// leaves it at that, NX creates it for a millisecond.
func (s *Server) probe(ctx context.Context, c *goredis.Conn, missing string) error {
	p := c.Pipeline()
	commands := p.Do(ctx, "COMMAND", "INFO", "DELIFEQ", "DELEX")
	ifeq := p.Do(ctx, "SET", missing, "x", "IFEQ", "y", "PX", 1)
	nxget := p.Do(ctx, "SET", missing, "x", "NX", "GET", "PX", 1)
	policy := p.ConfigGet(ctx, "maxmemory-policy")
	role := p.Do(ctx, "ROLE")
	for _, script := range scripts() {
		p.ScriptLoad(ctx, script.text)
	}
	if _, err := p.Exec(ctx); err != nil && !answered(err) {
		return err
	}
	if known, err := commands.Slice(); err == nil && len(known) == 2 {
		s.DELIFEQ, s.DELEX = known[0] != nil, known[1] != nil
	}
	s.IFEQ = errors.Is(ifeq.Err(), goredis.Nil)
	s.SetNXGet = errors.Is(nxget.Err(), goredis.Nil)
	s.Policy = policy.Val()["maxmemory-policy"]
	s.readRole(role)
	return nil
}

// answered says whether an error is the server's own answer.
func answered(err error) bool {
	var said goredis.Error
	return errors.As(err, &said)
}

// readRole reads the answer of ROLE
// (https://redis.io/docs/latest/commands/role/).
func (s *Server) readRole(role *goredis.Cmd) {
	parts, err := role.Slice()
	if err != nil || len(parts) == 0 {
		return
	}
	s.Primary, s.Replica = parts[0] == "master", parts[0] == "slave"
	if replicas, ok := parts[len(parts)-1].([]any); ok && s.Primary {
		s.Replicas = len(replicas)
	}
}

// ClassOf is the class of a lock on the server.
func (s *Server) ClassOf() lockspec.Class {
	if s.Replicas > 0 {
		return lockspec.ReplicatedLease
	}
	return lockspec.Leased
}

// Quiet keeps go-redis from writing to standard error, in the whole program:
// what it has to say, errors say too. It is for commands, not for libraries.
func Quiet() { goredis.SetLogger(nobody{}) }

type nobody struct{}

func (nobody) Printf(context.Context, string, ...any) {}
