package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/containers/docker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reports/result"
)

// ownRedis is a server that a run is pointed at, and knows nothing more of.
func ownRedis(t *testing.T, o *containers.RedisOptions) containers.Server {
	t.Helper()
	s, err := containers.Redis(t.Context(), o)
	var missing *containers.MissingError
	if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// say sends inline commands and gives the first line of the last answer.
func say(t *testing.T, addr string, commands ...string) (line string) {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	in := bufio.NewReader(c)
	for _, command := range commands {
		fmt.Fprintf(c, "%s\r\n", command)
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return strings.TrimSpace(line)
}

// needImage skips a test where Docker has not the image that is built here.
func needImage(t *testing.T) {
	t.Helper()
	there, err := (&docker.Docker{}).Has(t.Context(), docker.Built)
	if err == nil && !there {
		err = errors.New("make the image: containers/images/build")
	}
	if err != nil && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	must(t, err)
}

// TestUpRedis: the whole contract, on a server that the run starts itself.
func TestUpRedis(t *testing.T) {
	ownRedis(t, nil) // skips where there is none
	wholeContract(t, "up:redis", "--via", "local")
	wholeContract(t, "up:redis?fencing=off", "--via", "local")
}

// TestUpDocker: the same on Valkey, whose own commands the lock uses there, and
// on a newer Redis.
func TestUpDocker(t *testing.T) {
	needImage(t)
	for _, target := range []string{"up:valkey?renew=ifeq", "up:redis"} {
		c := wholeContract(t, target, "--via", "docker")
		if !strings.Contains(c.err, "started image "+docker.Built) {
			t.Errorf("it does not say what it started: %s", c.err)
		}
		if again := c.report(t).Command; !strings.Contains(again, "--via docker") {
			t.Errorf("the command that runs it again says another way: %s", again)
		}
	}
}

func wholeContract(t *testing.T, target string, args ...string) *cli {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	// A machine that stalls leaves cases undecided; that they all pass is for a
	// quiet one to show.
	c := (&cli{}).run(t, append([]string{"run", target, "--suite", "contract"}, args...)...).want(t, result.ExitOK, result.ExitInconclusive)
	r := c.report(t)
	passed := 0
	for i := range r.Cases {
		switch k := &r.Cases[i]; k.Status {
		case result.Pass:
			passed++
		case result.Inconclusive:
			t.Logf("%s: %s: %s: %s", target, k.ID, k.Status, k.Reason)
		case result.Unsupported:
			if k.ID != "B12" && k.ID != "D15" && k.ID != "D17" && k.ID != "H08" && !strings.Contains(k.Reason, "not claimed") {
				t.Errorf("%s: %s: %s", target, k.ID, k.Reason)
			}
		default:
			t.Errorf("%s: %s: %s: %s", target, k.ID, k.Status, k.Reason)
		}
	}
	if passed < 60 {
		t.Errorf("%s: only %d cases passed", target, passed)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("temporary folders are left: %v", left)
	}
	return c
}

// TestVia: bad input names the setting.
func TestVia(t *testing.T) {
	for _, test := range []struct {
		args []string
		code result.Exit
		says string
	}{
		{[]string{"up:redis", "--via", "dokcer"}, result.ExitUsage, "--via"},
		{[]string{"up:redis", "--image", "redis:8"}, result.ExitUsage, "--via docker"},
		{[]string{"redis://127.0.0.1:1", "--via", "docker"}, result.ExitUsage, "up:"},
		{[]string{"up:valkey", "--via", "docker", "--image", "lockcheck.invalid/none:1"}, result.ExitUnavailable, "lockcheck.invalid/none:1"},
	} {
		if test.code == result.ExitUnavailable {
			needImage(t)
		}
		c := (&cli{}).run(t, append([]string{"run", "--lease", "500ms"}, test.args...)...).want(t, test.code)
		if !strings.Contains(c.err, test.says) {
			t.Errorf("%v: it does not say %s: %s", test.args, test.says, c.err)
		}
	}
}

// TestRedisNotOurs: a server that the run did not start. Nothing of the
// contract reaches into it, the user's keys stay, the run's own go, and the
// password is told to nobody.
func TestRedisNotOurs(t *testing.T) {
	s := ownRedis(t, &containers.RedisOptions{Password: "hunter2"})
	say(t, s.Addr(), "AUTH hunter2", "SELECT 1", "SET lock:{k} another")
	c := (&cli{}).run(t, "run", "redis://:hunter2@"+s.Addr()+"/1?fencing=on", "--case", "A01,A10,F02,H01,E03,X01").want(t, result.ExitOK, result.ExitInconclusive)
	r := c.report(t)
	for id, want := range map[string]result.Status{"A01": result.Pass, "A10": result.Pass, "F02": result.Pass, "X01": result.Pass,
		"H01": result.Unsupported, "E03": result.Unsupported} {
		if k := caseOf(t, r, id); k.Status != want && (want != result.Pass || k.Status != result.Inconclusive) {
			t.Errorf("%s: %s: %s", id, k.Status, k.Reason)
		}
	}
	if n := say(t, s.Addr(), "AUTH hunter2", "SELECT 1", "DBSIZE"); n != ":1" {
		t.Errorf("DBSIZE %s afterwards; the user had one key", n)
	}
	told(t, c, "hunter2")
}

// told fails if a word stands anywhere that a run writes to.
func told(t *testing.T, c *cli, word string) {
	t.Helper()
	if strings.Contains(c.out+c.err, word) {
		t.Errorf("the command line tells %s:\n%s%s", word, c.out, c.err)
	}
	err := filepath.WalkDir(c.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), word) {
			t.Errorf("%s tells %s", path, word)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRedisTrouble: one line that names the setting that is wrong, soon, and
// without a secret.
func TestRedisTrouble(t *testing.T) {
	s := ownRedis(t, &containers.RedisOptions{Password: "right"})
	addr := s.Addr()
	say(t, addr, "AUTH right", "ACL SETUSER reader on >hunter2 ~* +@read +ping")
	replica := ownRedis(t, &containers.RedisOptions{Password: "right", Directives: []string{"replicaof " + strings.Replace(addr, ":", " ", 1)}})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := silent.Addr().String()
	silent.Close()
	troubles(t, []badTarget{
		{"unknown option", "redis://:hunter2@" + addr + "/0?lese=1s", result.ExitUsage, []string{`"lese"`, "lease"}},
		{"option of a started server", "up:redis?fence=on", result.ExitUsage, []string{`"fence"`, "fencing"}},
		{"unknown service", "up:reddis", result.ExitUsage, []string{"up:reddis", `"redis"`}},
		{"database", "redis://:hunter2@" + addr + "/one", result.ExitUsage, []string{`"one"`, "database"}},
		{"no such database", "redis://:right@" + addr + "/1000", result.ExitUsage, []string{"DB"}},
		{"form", "redis://:hun/ter2@" + addr, result.ExitUsage, []string{"redis://", "%2F"}},
		{"wrong password", "redis://:hunter2@" + addr, result.ExitUsage, []string{"USER:PASSWORD", "refuses"}},
		{"unknown user", "redis://me:hunter2@" + addr, result.ExitUsage, []string{"USER:PASSWORD", "refuses"}},
		{"no password", "redis://" + addr, result.ExitUsage, []string{"USER:PASSWORD", "none"}},
		{"nobody there", "redis://:hunter2@" + nobody, result.ExitUnavailable, []string{"HOST:PORT", nobody}},
		{"user that may only read", "redis://reader:hunter2@" + addr, result.ExitUsage, []string{"USER", "may not"}},
		{"replica", "redis://:right@" + replica.Addr(), result.ExitUsage, []string{"HOST:PORT", "replica"}},
	})
}

// TestRedisWarnings: what endangers locks is told before anything runs.
func TestRedisWarnings(t *testing.T) {
	s := ownRedis(t, &containers.RedisOptions{Directives: []string{"maxmemory-policy allkeys-lru"}})
	c := (&cli{}).run(t, "run", "redis://"+s.Addr(), "--case", "A01", "--lease", "500ms").want(t, result.ExitOK, result.ExitInconclusive)
	if !strings.Contains(c.err, "warning: maxmemory-policy allkeys-lru") {
		t.Error(c.err)
	}
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
} = redisHarness{}

// TestRedisCommandLines: a driver that was given a URL with a password shows it
// to nobody who lists processes.
func TestRedisCommandLines(t *testing.T) {
	s := ownRedis(t, &containers.RedisOptions{Password: "hunter2"})
	p, err := contract.NewProcesses(t.Context(), contract.ProcessOptions{
		Node: driver.Config{URL: "redis://:hunter2@" + s.Addr()}, Lease: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	c, err := p.Open(t.Context(), "n1")
	must(t, err)
	l, err := c.Acquire(t.Context(), lockspec.Request{Key: "k", Lease: time.Second})
	must(t, err)
	n, err := p.Node(t.Context(), "n1")
	must(t, err)
	for _, file := range []string{"cmdline", "environ"} {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", n.PID(), file)); err == nil && strings.Contains(string(text), "hunter2") {
			t.Errorf("%s of the driver tells the password", file)
		}
	}
	must(t, l.Release(t.Context()))
}
