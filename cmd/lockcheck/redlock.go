package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reference/backends/redis"
	"github.com/lockcheck/lockcheck/reference/backends/redlock"
	"github.com/lockcheck/lockcheck/reference/broken"
	"github.com/lockcheck/lockcheck/reports/result"
)

// redlockServers is how many servers a run starts: the least of which one may
// fail.
const redlockServers = 3

func redlockTarget(rest string) (target, error) {
	text := redlock.Scheme + rest
	if _, _, err := redlock.ParseURL(text); err != nil {
		return target{}, exit(result.ExitUsage, "target %s: %w", redact(text), err)
	}
	return target{url: text, prepare: redlockService}, nil
}

func upRedlockTarget(options string) (target, error) {
	text := redlock.Scheme + "a,b,c/?" + options
	if _, _, err := redlock.ParseURL(text); err != nil {
		return target{}, exit(result.ExitUsage, "target up:redlock: %w", err)
	}
	return target{url: text, prepare: upRedlockService}, nil
}

// openRedlock opens the lock of a node.
func openRedlock(text string) (driver.Lock, error) {
	addrs, o, err := redlock.ParseURL(text)
	if err != nil {
		return nil, err
	}
	b, err := redlock.New(addrs, o)
	if err != nil {
		return nil, err
	}
	_, query, _ := strings.Cut(text, "?")
	return newLock(&url.URL{RawQuery: query}, b, broken.Lock{})
}

// redlockURL is a URL of the servers with the options of another, and more.
func redlockURL(text, user string, addrs []string, add url.Values) string {
	_, query, _ := strings.Cut(text, "?")
	q, _ := url.ParseQuery(query) // it was parsed before
	for name, values := range add {
		q[name] = values
	}
	return redlock.Scheme + user + strings.Join(addrs, ",") + "/?" + q.Encode()
}

// redlockService looks at every server of a target that is not ours.
func redlockService(ctx context.Context, r *run) (*service, error) {
	urls, err := redlock.URLs(r.t.url)
	if err != nil {
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	}
	prefix := ""
	var servers []*redis.Backend
	closeAll := func() {
		for _, b := range servers {
			r.sweep(b)
		}
	}
	for _, u := range urls {
		addr, o, err := redis.ParseURL(u)
		if err != nil {
			closeAll()
			return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
		}
		if prefix == "" {
			prefix = runPrefix(o.Prefix)
		}
		o.Prefix = prefix
		b, err := redis.New(addr, o)
		if err == nil {
			servers = append(servers, b)
			err = r.lookAt(ctx, b)
		}
		if err != nil {
			closeAll()
			return nil, err
		}
	}
	text, _, _ := strings.Cut(r.t.url, "?")
	_, query, _ := strings.Cut(r.t.url, "?")
	q, _ := url.ParseQuery(query)
	q.Set("prefix", prefix)
	q.Set("lease", r.f.lease.String())
	return &service{url: text + "?" + q.Encode(), close: closeAll}, nil
}

// lookAt tells what is known of a server, or why it cannot be used.
func (r *run) lookAt(ctx context.Context, b *redis.Backend) error {
	known, err := look(ctx, b)
	if err != nil {
		return trouble(r.t.text, err)
	}
	r.tell(known)
	return nil
}

// upRedlockService starts the servers.
func upRedlockService(ctx context.Context, r *run) (*service, error) {
	_, o, err := redlock.ParseURL(r.t.url)
	if err != nil {
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	}
	o.Server.Password = rand.Text()
	var servers []redis.Started
	var ends []func() error
	closeAll := func() {
		for _, end := range ends {
			_ = end()
		}
	}
	for n := range redlockServers {
		s, err := r.startRedis(ctx, fmt.Sprintf("redis-%d", n+1), o.Server.Password, containers.Redis)
		if err != nil {
			closeAll()
			return nil, err
		}
		servers, ends = append(servers, s), append(ends, s.Close)
	}
	faults, err := redlock.NewFaults(servers, &o.Server)
	if err != nil {
		closeAll()
		return nil, exit(result.ExitInternal, "%w", err)
	}
	s := &service{close: func() { _ = faults.Close(); closeAll() }}
	s.with = func(p *contract.Processes) (contract.Harness, func() error) {
		return redlockHarness{p, faults}, p.Close
	}
	s.url = redlockURL(r.t.url, url.UserPassword("", o.Server.Password).String()+"@", faults.Addrs(), url.Values{"lease": {r.f.lease.String()}})
	r.up = s.url
	return s, errors.Join(ctx.Err())
}

// redlockHarness is the harness of servers of ours.
type redlockHarness struct {
	*contract.Processes
	*redlock.Faults
}
