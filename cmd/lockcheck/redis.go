package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reference/backends/redis"
	"github.com/lockcheck/lockcheck/reference/broken"
	"github.com/lockcheck/lockcheck/reports/result"
)

// redisForms are the rows of the table of targets.
func redisForms() []schemeRow {
	return []schemeRow{
		{"redis://HOST:PORT/DB", "a Redis or Valkey; with TLS: rediss://", redisTarget("redis")},
		{"rediss://HOST:PORT/DB", "the same", redisTarget("rediss")},
		{"redlock://HOST:PORT,HOST:PORT,HOST:PORT/DB", "a majority of independent Redis or Valkey", redlockTarget},
	}
}

func redisTarget(scheme string) func(rest string) (target, error) {
	return func(rest string) (target, error) {
		text := scheme + "://" + rest
		if _, _, err := redis.ParseURL(text); err != nil {
			return target{}, exit(result.ExitUsage, "target %s: %w", redact(text), err)
		}
		return target{url: text, prepare: redisService}, nil
	}
}

// startRedis starts one kind of server.
type startRedis func(context.Context, *containers.RedisOptions) (containers.Server, error)

func upRedisTarget(name string, start startRedis) func(options string) (target, error) {
	return func(options string) (target, error) {
		text := "redis://started/?" + options
		if _, _, err := redis.ParseURL(text); err != nil {
			return target{}, exit(result.ExitUsage, "target up:%s: %w", name, err)
		}
		return target{url: text, prepare: upRedisService(name, start)}, nil
	}
}

// openRedis opens the lock of a node.
func openRedis(u *url.URL) (driver.Lock, error) {
	addr, o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, err
	}
	b, err := redis.New(addr, o)
	if err != nil {
		return nil, err
	}
	return newLock(u, b, broken.Lock{})
}

// lookLimit bounds the first look at a server.
const lookLimit = 5 * time.Second

// redisService looks at a server that is not ours. The keys of this run have a
// prefix of their own, so that they can be removed at the end and nothing else.
func redisService(ctx context.Context, r *run) (*service, error) {
	addr, o, err := redis.ParseURL(r.t.url)
	if err != nil {
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	}
	o.Prefix = runPrefix(o.Prefix)
	add := url.Values{"prefix": {o.Prefix}}
	b, err := redis.New(addr, o)
	if err != nil {
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	}
	known, err := look(ctx, b)
	if err != nil {
		_ = b.Close()
		return nil, trouble(r.t.text, err)
	}
	r.tell(known)
	if known != nil && o.Class == "" {
		add.Set("class", string(known.ClassOf()))
	}
	return &service{url: r.redisURL(addr, add), close: func() { r.sweep(b) }}, nil
}

// runPrefix is a prefix for the keys of one run, below the user's.
func runPrefix(prefix string) string {
	return or(prefix, redis.DefaultPrefix) + "run-" + rand.Text()[:8] + ":"
}

func look(ctx context.Context, b *redis.Backend) (*redis.Server, error) {
	redis.Quiet()
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	return b.Look(ctx)
}

// tell says what about a server endangers locks.
func (r *run) tell(known *redis.Server) {
	if known == nil {
		fmt.Fprintln(r.d.err, "warning: the server does not let this user ask what it is: it may evict locks")
		return
	}
	fmt.Fprintf(r.d.err, "target %s: %s %s\n", r.t.text, known.Name, known.Version)
	for _, w := range known.Warnings() {
		fmt.Fprintf(r.d.err, "warning: %s\n", w)
	}
}

// redisURL is what the drivers are told: the target's own URL at the address,
// with the lease that will be asked for.
func (r *run) redisURL(addr string, add url.Values) string {
	u, _ := url.Parse(r.t.url) // it was parsed before
	u.Host = addr
	q := u.Query()
	q.Set("lease", r.f.lease.String())
	for name, values := range add {
		q[name] = values
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// sweep removes the keys of this run.
func (r *run) sweep(b *redis.Backend) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	if err := b.Sweep(ctx); err != nil {
		fmt.Fprintf(r.d.err, "warning: keys of this run may be left on the server: %v\n", err)
	}
	_ = b.Close()
}

// upRedisService starts a server of its own.
func upRedisService(name string, start startRedis) prepare {
	return func(ctx context.Context, r *run) (*service, error) {
		_, o, err := redis.ParseURL(r.t.url)
		if err != nil {
			return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
		}
		o.Password = rand.Text()
		started, err := r.startRedis(ctx, name, o.Password, start)
		if err != nil {
			return nil, err
		}
		faults, err := redis.NewFaults(started, o)
		if err != nil {
			return nil, exit(result.ExitInternal, "%w", errors.Join(err, started.Close()))
		}
		s := &service{close: func() { _ = errors.Join(faults.Close(), started.Close()) }}
		s.with = func(p *contract.Processes) (contract.Harness, func() error) { return redisHarness{p, faults}, p.Close }
		b, err := redis.New(faults.Addr(), o)
		if err == nil {
			defer b.Close()
			err = r.lookAt(ctx, b)
		}
		if err != nil {
			s.close()
			return nil, trouble(r.t.text, err)
		}
		u, _ := url.Parse(r.redisURL(faults.Addr(), nil))
		u.User = url.UserPassword("", o.Password)
		s.url = u.String()
		r.up = s.url
		return s, nil
	}
}

// redisHarness is the harness of a server of ours: nodes are processes, and
// every power over the service is there.
type redisHarness struct {
	*contract.Processes
	*redis.Faults
}

// startedRedis is a server as the faults of package redis want it.
type startedRedis struct {
	containers.Server
	password string
	start    func(ctx context.Context, directives ...string) (containers.Server, error)
}

// startRedis starts a server whose log has a name. It has a password, so that
// what is tested is what is used.
func (r *run) startRedis(ctx context.Context, name, password string, start startRedis) (*startedRedis, error) {
	log, err := r.log(name)
	if err != nil {
		return nil, err
	}
	s := &startedRedis{password: password}
	s.start = func(ctx context.Context, directives ...string) (containers.Server, error) {
		return start(ctx, &containers.RedisOptions{Options: r.servers(log), Password: s.password, Directives: directives})
	}
	if s.Server, err = s.start(ctx); err != nil {
		return nil, r.notStarted(err)
	}
	fmt.Fprintf(r.d.err, "target %s: started %s\n", r.t.text, s.About())
	return s, nil
}

// Restart implements redis.Started.
func (s *startedRedis) Restart(ctx context.Context) error {
	return s.Server.Restart(ctx, containers.Forget)
}

// Replica implements redis.Started.
func (s *startedRedis) Replica(ctx context.Context) (addr string, end func() error, err error) {
	host, port, err := net.SplitHostPort(s.Peer())
	if err != nil {
		return "", nil, err
	}
	replica, err := s.start(ctx, "replicaof "+host+" "+port, fmt.Sprintf("masterauth %q", s.password))
	if err != nil {
		return "", nil, err
	}
	return replica.Addr(), replica.Close, nil
}

var _ redis.Started = (*startedRedis)(nil)
