package postgres

import (
	"context"
	"errors"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/reference"
)

func TestMain(m *testing.M) {
	if os.Getenv(envCut) != "" {
		os.Exit(cutOff())
	}
	code := m.Run()
	if s, _ := shared(); s != nil {
		_ = s.Close()
	}
	os.Exit(code)
}

const password = "hunter2"

// shared is the server of those tests that do nothing to it. Each has keys of
// its own.
var shared = sync.OnceValues(func() (containers.Server, error) {
	return containers.Postgres(context.Background(), &containers.PostgresOptions{Password: password})
})

// lab is a real server.
type lab struct {
	containers.Server
	options *containers.PostgresOptions
}

// newLab gives the shared server, or one that the test has for itself, with
// settings. Where there is none the test is skipped, or fails if everything is
// required.
func newLab(t *testing.T, settings ...string) *lab {
	t.Helper()
	o := &containers.PostgresOptions{Password: password, Settings: settings}
	if len(settings) == 0 {
		s, err := shared()
		present(t, err)
		return &lab{s, o}
	}
	s, err := containers.Postgres(t.Context(), o)
	present(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &lab{s, o}
}

// own is a setting that changes nothing: a server that a test has for itself.
const own = "log_min_messages = warning"

func present(t *testing.T, err error) {
	t.Helper()
	var missing *containers.MissingError
	if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	must(t, err)
}

// Restart implements Started.
func (l *lab) Restart(ctx context.Context) error { return l.Server.Restart(ctx, containers.Keep) }

// Standby implements Started.
func (l *lab) Standby(ctx context.Context) (Standby, error) {
	return containers.PostgresStandby(ctx, l.Server, l.options)
}

// Pooler implements Started.
func (l *lab) Pooler(ctx context.Context, mode string) (string, func() error, error) {
	p, err := containers.PgBouncer(ctx, l.Addr(), &containers.PgBouncerOptions{Mode: mode, Password: password})
	if err != nil {
		return "", nil, err
	}
	return p.Addr(), p.Close, nil
}

var user = url.UserPassword(containers.PostgresUser, password)

func at(addr string) string {
	u := url.URL{Scheme: "postgres", User: user, Host: addr, Path: "/" + containers.PostgresUser, RawQuery: "sslmode=disable"}
	return u.String()
}

// sql asks the server one thing, and gives the first row of the answer.
func (l *lab) sql(t *testing.T, text string) []string {
	t.Helper()
	a := &admin{url: func() string { return at(l.Addr()) }}
	defer a.close()
	rows, err := a.query(t.Context(), text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if len(rows) == 0 {
		return nil
	}
	return rows[0]
}

// backend is a way to a server, which ends with the test.
func backend(t *testing.T, server string, o *Options) *Backend {
	t.Helper()
	b, err := New(server, o)
	must(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// faults stand before a server, for as long as the test lasts.
func faults(t *testing.T, l *lab, o *Options) *Faults {
	t.Helper()
	f, err := NewFaults(l, user, containers.PostgresUser, o)
	must(t, err)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func claim(t *testing.T, key, owner string) reference.Claim {
	return reference.Claim{Key: t.Name() + "/" + key, Owner: owner, Count: 1}
}

// grant takes a key that must be free.
func grant(t *testing.T, b *Backend, c reference.Claim) reference.Grant {
	t.Helper()
	g, err := b.Attempt(t.Context(), c)
	if err != nil {
		t.Fatalf("attempt of a free key: %v", err)
	}
	return g
}

// attempt is the error of an attempt.
func attempt(t *testing.T, b *Backend, c reference.Claim) error {
	t.Helper()
	_, err := b.Attempt(t.Context(), c)
	return err
}

func expect(t *testing.T, what string, err error, want error) {
	t.Helper()
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// soon waits for what must come about, and says how long it took.
func soon(t *testing.T, what string, within time.Duration, is func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !is() {
		if time.Since(begin) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(begin)
}

// lossOf waits for the news of a loss.
func lossOf(t *testing.T, g reference.Grant, within time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	select {
	case <-g.Lost:
	case <-time.After(within):
		t.Fatalf("no loss within %v", within)
	}
	return time.Since(begin)
}
