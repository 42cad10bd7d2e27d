package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference/backends/postgres"
	"github.com/lockcheck/lockcheck/reports/result"
)

func upPostgresTarget(options string) (target, error) {
	text := "postgres://started/" + containers.PostgresUser + "?" + options
	if _, _, err := postgres.ParseURL(text); err != nil {
		return target{}, exit(result.ExitUsage, "target up:postgres: %w", err)
	}
	return target{url: text, prepare: upPostgresService}, nil
}

// upPostgresService starts a server of its own. It has a password, so that what
// is tested is what is used.
func upPostgresService(ctx context.Context, r *run) (_ *service, err error) {
	_, o, err := postgres.ParseURL(r.t.url)
	if err != nil {
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	}
	log, err := r.log("postgres")
	if err != nil {
		return nil, err
	}
	started := &startedPostgres{servers: r.servers(log), password: rand.Text()}
	if started.Server, err = containers.Postgres(ctx, started.options()); err != nil {
		return nil, r.notStarted(err)
	}
	fmt.Fprintf(r.d.err, "target %s: started %s\n", r.t.text, started.About())
	user := url.UserPassword(containers.PostgresUser, started.password)
	faults, err := postgres.NewFaults(started, user, containers.PostgresUser, o)
	if err != nil {
		return nil, exit(result.ExitInternal, "%w", errors.Join(err, started.Close()))
	}
	s := &service{close: func() { _ = errors.Join(faults.Close(), started.Close()) }}
	s.with = func(p *contract.Processes) (contract.Harness, func() error) {
		return postgresHarness{p, faults}, p.Close
	}
	b, err := postgres.New(faults.URL(), o)
	if err == nil {
		defer b.Close()
		err = r.lookAtPostgres(ctx, b)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	u, _ := url.Parse(r.t.url)
	s.url = r.postgresURL(faults.URL(), u.Query())
	r.up = s.url
	return s, nil
}

// postgresHarness is the harness of a server of ours: nodes are processes, and
// every power over the service is there.
type postgresHarness struct {
	*contract.Processes
	*postgres.Faults
}

// startedPostgres is a server as the faults of package postgres want it.
type startedPostgres struct {
	containers.Server
	servers  containers.Options
	password string
}

// options are those of every server of the run.
func (s *startedPostgres) options() *containers.PostgresOptions {
	return &containers.PostgresOptions{Options: s.servers, Password: s.password}
}

// Restart implements postgres.Started.
func (s *startedPostgres) Restart(ctx context.Context) error {
	return s.Server.Restart(ctx, containers.Keep)
}

// Standby implements postgres.Started.
func (s *startedPostgres) Standby(ctx context.Context) (postgres.Standby, error) {
	return containers.PostgresStandby(ctx, s.Server, s.options())
}

// Pooler implements postgres.Started.
func (s *startedPostgres) Pooler(ctx context.Context, mode string) (addr string, end func() error, err error) {
	o := &containers.PgBouncerOptions{Options: s.servers, Mode: mode, Password: s.password}
	p, err := containers.PgBouncer(ctx, s.Addr(), o)
	if err != nil {
		return "", nil, err
	}
	return p.Addr(), p.Close, nil
}

var _ postgres.Started = (*startedPostgres)(nil)
