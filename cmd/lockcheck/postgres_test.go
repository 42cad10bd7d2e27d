package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/containers/docker"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// ownPostgres is a server that a run is pointed at, and knows nothing more of.
func ownPostgres(t *testing.T, o *containers.PostgresOptions) containers.Server {
	t.Helper()
	s, err := containers.Postgres(t.Context(), o)
	var missing *containers.MissingError
	if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// undecided are the cases that session locks do not decide, for want of what they
// are about: a queue with notifications, a waiter's session, a lease.
var undecided = []string{"D15", "D17", "E11", "E14", "F05"}

// TestUpPostgres: the whole contract, on a server that the run starts itself.
func TestUpPostgres(t *testing.T) {
	tmp := t.TempDir()
	must(t, os.Chmod(filepath.Dir(tmp), 0o755)) // whom PostgreSQL runs as has to come by
	t.Setenv("TMPDIR", tmp)
	ownPostgres(t, nil).Close() // skips where there is none
	// A machine that stalls leaves cases undecided; that they all pass is for a
	// quiet one to show.
	r := (&cli{}).run(t, "run", "up:postgres", "--suite", "contract").want(t, result.ExitOK, result.ExitInconclusive).report(t)
	passed := 0
	for i := range r.Cases {
		switch k := &r.Cases[i]; k.Status {
		case result.Pass:
			passed++
		case result.Inconclusive:
			t.Logf("%s: %s: %s", k.ID, k.Status, k.Reason)
		case result.Unsupported:
			if !strings.Contains(strings.Join(undecided, " "), k.ID) && !strings.Contains(k.Reason, "not claimed") {
				t.Errorf("%s: %s", k.ID, k.Reason)
			}
		default:
			t.Errorf("%s: %s: %s", k.ID, k.Status, k.Reason)
		}
	}
	if passed < 45 {
		t.Errorf("only %d cases passed", passed)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("temporary folders are left: %v", left)
	}
}

// TestUpPostgresDocker: the powers over a server in a container, each by one case;
// it has no standby.
func TestUpPostgresDocker(t *testing.T) {
	needImage(t)
	c := (&cli{}).run(t, "run", "up:postgres", "--via", "docker", "--case", "A11,B12,F04,H01,H05,H09").
		want(t, result.ExitOK, result.ExitInconclusive)
	if !strings.Contains(c.err, "started image "+docker.Built) {
		t.Errorf("it does not say what it started: %s", c.err)
	}
	r := c.report(t)
	for i := range r.Cases {
		switch k := &r.Cases[i]; k.Status {
		case result.NotRun, result.Pass, result.Inconclusive:
		default:
			if k.ID != "H09" || !strings.Contains(k.Reason, "no standby") {
				t.Errorf("%s: %s: %s", k.ID, k.Status, k.Reason)
			}
		}
	}
}

// TestPostgresNotOurs: a server that the run did not start. Nothing of the
// contract reaches into it, the run's own table goes, and the password is told
// to nobody.
func TestPostgresNotOurs(t *testing.T) {
	s := ownPostgres(t, &containers.PostgresOptions{Password: "hunter2"})
	url := "postgres://postgres:hunter2@" + s.Addr() + "/postgres"
	for range 2 {
		c := (&cli{}).run(t, "run", url, "--case", "A01,F02,H01").want(t, result.ExitOK, result.ExitInconclusive)
		r := c.report(t)
		for id, want := range map[string]result.Status{"A01": result.Pass, "F02": result.Pass, "H01": result.Unsupported} {
			if k := caseOf(t, r, id); k.Status != want && (want != result.Pass || k.Status != result.Inconclusive) {
				t.Errorf("%s: %s: %s", id, k.Status, k.Reason)
			}
		}
		if strings.Contains(c.err, "may be left") {
			t.Error(c.err)
		}
		told(t, c, "hunter2")
	}
}

// TestPostgresTrouble: one line that names the setting that is wrong, soon, and
// without a secret.
func TestPostgresTrouble(t *testing.T) {
	s := ownPostgres(t, &containers.PostgresOptions{Password: "right"})
	addr := s.Addr()
	standby, err := containers.PostgresStandby(t.Context(), s, &containers.PostgresOptions{Password: "right"})
	must(t, err)
	defer standby.Close()
	pooler, err := containers.PgBouncer(t.Context(), addr, &containers.PgBouncerOptions{Password: "right"})
	must(t, err)
	defer pooler.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	nobody := silent.Addr().String()
	silent.Close()
	troubles(t, []badTarget{
		{"unknown option", "postgres://postgres:hunter2@" + addr + "/postgres?tabel=x", result.ExitUsage, []string{`"tabel"`, "table"}},
		{"option of a started server", "up:postgres?fence=on", result.ExitUsage, []string{`"fence"`, "fencing"}},
		{"no database", "postgres://postgres:hunter2@" + addr, result.ExitUsage, []string{"DATABASE"}},
		{"missing database", "postgres://postgres:right@" + addr + "/nowhere", result.ExitUsage, []string{"DATABASE"}},
		{"form", "postgres://postgres:hun/ter2@" + addr + "/postgres", result.ExitUsage, []string{"postgres://", "%2F"}},
		{"wrong password", "postgres://postgres:hunter2@" + addr + "/postgres", result.ExitUsage, []string{"USER:PASSWORD", "refuses"}},
		{"nobody there", "postgres://postgres:hunter2@" + nobody + "/postgres", result.ExitUnavailable, []string{"HOST:PORT", nobody}},
		{"standby", "postgres://postgres:right@" + standby.Addr() + "/postgres", result.ExitUsage, []string{"HOST:PORT", "standby"}},
		{"pooler", "postgres://postgres:right@" + pooler.Addr() + "/postgres?sslmode=disable", result.ExitUsage, []string{"HOST:PORT", "pooler=session"}},
	})
}

var _ interface {
	contract.NodeHost
	contract.Observer
	contract.TrafficCounter
	contract.Interferer
	contract.Evicter
	contract.Restarter
	contract.Stopper
	contract.Inspector
	contract.Emptier
	contract.Misdirector
	contract.Pinger
} = postgresHarness{}
