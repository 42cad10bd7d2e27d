package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reference/backends/postgres"
	"github.com/lockcheck/lockcheck/reference/broken"
	"github.com/lockcheck/lockcheck/reports/result"
)

// postgresForms are the rows of the table of targets.
func postgresForms() []schemeRow {
	return []schemeRow{
		{"postgres://HOST:PORT/DATABASE", "advisory locks of a PostgreSQL", postgresTarget("postgres")},
		{"postgresql://HOST:PORT/DATABASE", "the same", postgresTarget("postgresql")},
	}
}

func postgresTarget(scheme string) func(rest string) (target, error) {
	return func(rest string) (target, error) {
		text := scheme + "://" + rest
		if _, _, err := postgres.ParseURL(text); err != nil {
			return target{}, exit(result.ExitUsage, "target %s: %w", redact(text), err)
		}
		return target{url: text, prepare: postgresService}, nil
	}
}

// openPostgres opens the lock of a node.
func openPostgres(text string) (driver.Lock, error) {
	server, o, err := postgres.ParseURL(text)
	if err != nil {
		return nil, err
	}
	b, err := postgres.New(server, o)
	if err != nil {
		return nil, err
	}
	return newLock(&url.URL{}, b, broken.Lock{})
}

// postgresService looks at a server that is not ours. The keys and the table of
// this run are its own, so that what is removed at the end is nobody else's.
func postgresService(ctx context.Context, r *run) (*service, error) {
	server, o, err := postgres.ParseURL(r.t.url)
	if err != nil {
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	}
	mark := strings.ToLower(rand.Text()[:8])
	add := url.Values{"prefix": {o.Prefix + "run-" + mark + ":"}, "table": {or(o.Table, postgres.DefaultTable) + "_run_" + mark}}
	o.Prefix, o.Table = add.Get("prefix"), add.Get("table")
	b, err := postgres.New(server, o)
	if err != nil {
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	}
	if err := r.lookAtPostgres(ctx, b); err != nil {
		_ = b.Close()
		return nil, err
	}
	return &service{url: r.postgresURL(r.t.url, add), close: func() { r.sweepPostgres(b) }}, nil
}

// lookAtPostgres tells what is known of the server, or why it cannot be used.
func (r *run) lookAtPostgres(ctx context.Context, b *postgres.Backend) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	known, err := b.Look(ctx)
	if err != nil {
		return trouble(r.t.text, err)
	}
	fmt.Fprintf(r.d.err, "target %s: PostgreSQL %s\n", r.t.text, known.Version)
	return nil
}

// postgresURL is what the drivers are told: a URL of the server, with options
// added. The lease was chosen so that this machine does not stall for as long.
func (r *run) postgresURL(text string, add url.Values) string {
	u, _ := url.Parse(text) // it was parsed before
	q := u.Query()
	if !q.Has("probe") {
		q.Set("probe", max(r.f.lease, leastProbe).String())
	}
	for name, values := range add {
		q[name] = values
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// leastProbe is long enough for a server that starts a process for each of many
// connections at once.
const leastProbe = time.Second

// sweepPostgres removes the table of this run.
func (r *run) sweepPostgres(b *postgres.Backend) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	if err := b.Sweep(ctx); err != nil {
		fmt.Fprintf(r.d.err, "warning: the table of this run may be left on the server: %v\n", err)
	}
	_ = b.Close()
}
