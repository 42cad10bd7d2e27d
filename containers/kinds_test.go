package containers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec/driver"
)

// kinds start one server of each kind, and what it needs.
var kinds = map[string]func(ctx context.Context, o Options) (Server, error){
	"redis":   func(ctx context.Context, o Options) (Server, error) { return Redis(ctx, &RedisOptions{Options: o}) },
	"azurite": func(ctx context.Context, o Options) (Server, error) { return Azurite(ctx, &AzuriteOptions{Options: o}) },
	"etcd":    func(ctx context.Context, o Options) (Server, error) { return Etcd(ctx, &EtcdOptions{Options: o}) },
	"postgres": func(ctx context.Context, o Options) (Server, error) {
		return Postgres(ctx, &PostgresOptions{Options: o, Password: "x"})
	},
	"pgbouncer": func(ctx context.Context, o Options) (Server, error) {
		return PgBouncer(ctx, "127.0.0.1:1", &PgBouncerOptions{Options: o, Password: "x"})
	},
}

// envVictim makes the test binary a program that starts a server and is killed.
const envVictim = "LOCKCHECK_TEST_VICTIM"

// TestKilled: no process of a server outlives the program that started it, nor
// does its folder, though that is killed, whether the server runs or stands
// still.
func TestKilled(t *testing.T) {
	for kind, start := range kinds {
		s, err := start(t.Context(), Options{})
		var missing *MissingError
		if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
			t.Logf("not tried: %v", err)
			continue
		}
		must(t, err)
		must(t, s.Close())
		for _, how := range []string{kind, kind + " paused"} {
			t.Run(how, func(t *testing.T) { killed(t, how) })
		}
	}
}

// killed kills a program that started a server.
func killed(t *testing.T, how string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envVictim+"="+how)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	must(t, err)
	words := strings.Fields(line)
	eventually(t, "its folder is gone", func() bool {
		_, err := os.Stat(words[0])
		return errors.Is(err, os.ErrNotExist)
	})
	for _, word := range words[1:] {
		var pid int
		_, err := fmt.Sscan(word, &pid)
		must(t, err)
		eventually(t, "process "+word+" is gone", func() bool { return !alive(pid) })
	}
}

// victim starts a server, says what it started and waits for its death.
func victim(how string) {
	kind, paused, _ := strings.Cut(how, " ")
	g, err := driver.StartGuard(nil)
	if err == nil {
		var s Server
		if s, err = kinds[kind](context.Background(), Options{Guard: g}); err == nil {
			l := s.(*local)
			if paused != "" {
				err = l.Pause()
			}
			pids := append(stopTree(l.run.cmd.Process), l.run.cmd.Process.Pid)
			if paused == "" {
				err = signalAll(pids, continueGroup)
			}
			fmt.Println(l.folder, strings.Trim(fmt.Sprint(pids), "[]"))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}
