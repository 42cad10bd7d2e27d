package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// service is what the drivers of a run talk to, found or started before them
// and given up after them.
type service struct {
	url string // what the drivers are told
	// with adds the powers over it and says how the harness ends; nil: there
	// are none.
	with  func(*contract.Processes) (h contract.Harness, end func() error)
	close func()
}

// prepare finds or starts the service of a target.
type prepare func(ctx context.Context, r *run) (*service, error)

// embeddedService starts the embedded server.
func embeddedService(ctx context.Context, r *run) (*service, error) {
	log, err := r.log("server")
	if err != nil {
		return nil, err
	}
	s, err := startServer(ctx, r.guard, log)
	if err != nil {
		return nil, exit(result.ExitInternal, "%w", err)
	}
	r.t.at(s.addr, r.f.lease)
	return &service{
		url: r.t.url, close: s.close,
		with: func(p *contract.Processes) (contract.Harness, func() error) {
			h := newEmbedded(p, s.admin)
			return h, h.Close
		},
	}, nil
}

// reachService says whether something listens where the target is.
func reachService(ctx context.Context, r *run) (*service, error) {
	d := net.Dialer{Timeout: 2 * time.Second}
	c, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(r.t.url, "memory://"))
	if err != nil {
		return nil, exit(result.ExitUnavailable, "target %s: nothing answers there: %w", r.t.text, err)
	}
	return &service{url: r.t.url, close: func() { c.Close() }}, nil
}

// upRow is one line of the table of services that a run can start itself.
type upRow struct {
	name, means string
	parse       func(options string) (target, error)
}

func ups() []upRow {
	return []upRow{
		{"redis", "a Redis", upRedisTarget("redis", containers.Redis)},
		{"valkey", "a Valkey", upRedisTarget("valkey", containers.Valkey)},
		{"redlock", "three of them", upRedlockTarget},
		{"azurite", "an Azurite, the emulator of Azure's storage, from npm", upAzuriteTarget},
		{"postgres", "a PostgreSQL", upPostgresTarget},
	}
}

// servers are the options of what the run starts.
func (r *run) servers(log io.Writer) containers.Options {
	return containers.Options{Guard: r.guard, Log: log, Via: containers.Via(r.f.via), Docker: &r.docker, Image: r.f.image}
}

// notStarted is the error of a run whose server did not start.
func (r *run) notStarted(err error) error {
	return exit(result.ExitUnavailable, "target %s: %w", r.t.text, err)
}

// upTarget is a target whose service is started first: NAME or NAME?OPTIONS.
func upTarget(rest string) (target, error) {
	name, options, _ := strings.Cut(rest, "?")
	var names []string
	for _, u := range ups() {
		if u.name == name {
			return u.parse(options)
		}
		names = append(names, u.name)
	}
	return target{}, exit(result.ExitUsage, "up:%s: no service has that name; %s", name, nearest(name, names))
}

// upForms are the rows of the table of targets.
func upForms() []schemeRow {
	var rows []schemeRow
	for _, u := range ups() {
		rows = append(rows, schemeRow{"up:" + u.name, fmt.Sprintf("the same, started for the run: %s", u.means), upTarget})
	}
	return rows
}
