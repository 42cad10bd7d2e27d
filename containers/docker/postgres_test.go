package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	tcexec "github.com/testcontainers/testcontainers-go/exec"

	"github.com/lockcheck/lockcheck/containers"
)

func startPostgres(t *testing.T, apart bool, o containers.PostgresOptions) *server {
	t.Helper()
	d := needImage(t)
	d.Apart = apart
	o.Docker, o.Via = d, containers.Docked
	s, err := containers.Postgres(t.Context(), &o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s.(*server)
}

// ask has the client in the container ask the server under a password.
func ask(t *testing.T, s *server, password, sql string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Peer())
	must(t, err)
	client := fmt.Sprintf("PGPASSWORD=%s PGCONNECT_TIMEOUT=2 psql -h %s -p %s -U %s -Atc %q 2>&1", password, host, port, containers.PostgresUser, sql)
	code, out, err := s.box.Exec(t.Context(), []string{"sh", "-c", client}, tcexec.Multiplexed())
	must(t, err)
	text, err := io.ReadAll(out)
	must(t, err)
	if code != 0 {
		return "error: " + string(text)
	}
	return strings.TrimSpace(string(text))
}

// TestPostgres: data stays or goes as asked, in both networks, and only one who
// knows the password gets in.
func TestPostgres(t *testing.T) {
	for network, apart := range map[string]bool{"shared": false, "apart": true} {
		t.Run(network, func(t *testing.T) {
			s := startPostgres(t, apart, containers.PostgresOptions{Password: "hunter2"})
			restarts(t, s, "1", "0",
				func() { ask(t, s, "hunter2", "CREATE TABLE IF NOT EXISTS t ()") },
				func() string { return ask(t, s, "hunter2", "SELECT count(*) FROM pg_tables WHERE tablename = 't'") })
			if got := ask(t, s, "wrong", "SELECT 1"); !strings.Contains(got, "password authentication failed") {
				t.Errorf("with a wrong password it says %q", got)
			}
		})
	}
}

// TestPostgresPause: all that it forked stands still, and an end in order does
// not wait for its clients.
func TestPostgresPause(t *testing.T) {
	s := startPostgres(t, false, containers.PostgresOptions{})
	ready := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return s.kind.Ready(ctx, s.Addr())
	}
	must(t, s.Pause())
	if ready() == nil {
		t.Error("a server that stands still answered")
	}
	must(t, errors.Join(s.Resume(), ready()))
	client := make(chan string, 1)
	go func() { client <- ask(t, s, "", "SELECT pg_sleep(60)") }()
	for limit := time.Now().Add(10 * time.Second); ask(t, s, "", "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") != "1"; {
		if time.Now().After(limit) {
			t.Fatal("no client sleeps")
		}
	}
	begin := time.Now()
	must(t, s.Stop(t.Context()))
	if took := time.Since(begin); took > 5*time.Second { // Docker would kill it after ten
		t.Errorf("its end took %v", took)
	}
	if log := s.Log(); !strings.Contains(log, "database system is shut down") {
		t.Errorf("it did not end in order: %s", log)
	}
	<-client
}

// TestPostgresBad: why it does not start is told, and nothing is left.
func TestPostgresBad(t *testing.T) {
	d := needImage(t)
	d.Apart = true // where no port can be another's, it is tried once
	o := &containers.PostgresOptions{Settings: []string{"no_such_setting = 1"}}
	o.Docker, o.Via = d, containers.Docked
	if _, err := containers.Postgres(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("the error does not tell why: %v", err)
	}
	if n := left(t, labelKey+"="+own()); n > 0 {
		t.Errorf("%d containers are left", n)
	}
}
