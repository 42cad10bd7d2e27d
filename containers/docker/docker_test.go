package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
)

// envVictim makes the test binary a program that starts a container and is
// killed.
const envVictim = "LOCKCHECK_TEST_VICTIM"

func TestMain(m *testing.M) {
	driver.Main(nil) // the guard is this binary
	Main()           // and the reaper
	if kind := os.Getenv(envVictim); kind != "" {
		victim(kind)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// needImage skips a test where there is no daemon or it has not the image that
// is built here: tests pull nothing.
func needImage(t *testing.T) *Docker {
	t.Helper()
	d := &Docker{}
	there, err := d.Has(t.Context(), Built)
	if err == nil && there {
		return d
	}
	if err == nil {
		err = errors.New("make it: containers/images/build")
	}
	if os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	t.Fatal(err)
	return nil
}

// TestBuilt: what makes the image gives it the name under which it is looked
// for.
func TestBuilt(t *testing.T) {
	script, err := os.ReadFile("../images/build")
	must(t, err)
	if !strings.Contains(string(script), "image="+Built+" ") {
		t.Errorf("containers/images/build makes no %s", Built)
	}
}

// start starts a Valkey on this machine's network, startApart one on a network
// of its own.
func start(t *testing.T, o containers.RedisOptions) *server {
	t.Helper()
	return startIn(t, needImage(t), o)
}

func startApart(t *testing.T, o containers.RedisOptions) *server {
	t.Helper()
	d := needImage(t)
	d.Apart = true
	return startIn(t, d, o)
}

// networks are the two ways.
var networks = map[string]func(*testing.T, containers.RedisOptions) *server{"shared": start, "apart": startApart}

func startIn(t *testing.T, d *Docker, o containers.RedisOptions) *server {
	t.Helper()
	o.Docker, o.Via = d, containers.Docked
	s, err := containers.Valkey(t.Context(), &o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s.(*server)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// say sends one inline command and gives the first line of the answer.
func say(t *testing.T, addr, command string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "error"
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
	fmt.Fprintf(c, "%s\r\n", command)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return "error"
	}
	return strings.TrimSpace(line)
}

// left is how many containers have a label.
func left(t *testing.T, label string) int {
	t.Helper()
	c, err := newClient(context.Background())
	must(t, err)
	defer c.Close()
	list, err := c.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", label)})
	must(t, err)
	return len(list.Items)
}

func TestRestart(t *testing.T) {
	for network, start := range networks {
		t.Run(network, func(t *testing.T) {
			s := start(t, containers.RedisOptions{Persist: true})
			restarts(t, s, "$1", "$-1", func() { say(t, s.Addr(), "SET k v") }, func() string { return say(t, s.Addr(), "GET k") })
		})
	}
}

// restarts ends a server in every way, which writes something before and is asked
// for it afterwards.
func restarts(t *testing.T, s *server, kept, gone string, write func(), read func() string) {
	t.Helper()
	for _, test := range []struct {
		what string
		end  func() error
		want string
	}{
		{"a crash that keeps what was written", func() error { return s.Restart(t.Context(), containers.Keep) }, kept},
		{"a crash that loses its disk", func() error { return s.Restart(t.Context(), containers.Forget) }, gone},
		{"an end in order", func() error { return errors.Join(s.Stop(t.Context()), s.Start(t.Context())) }, kept},
		{"a kill", func() error { return errors.Join(s.Kill(), s.Kill(), s.Start(t.Context())) }, kept},
		{"a kill in a pause", func() error { return errors.Join(s.Pause(), s.Kill(), s.Start(t.Context())) }, kept},
	} {
		write()
		must(t, test.end())
		if got := read(); got != test.want {
			t.Errorf("after %s: %q, want %q", test.what, got, test.want)
		}
	}
	if n := left(t, labelKey+"="+own()); n != 1 {
		t.Errorf("%d containers of one server", n)
	}
}

// TestForget: a server that keeps nothing is the same container afterwards, and
// empty.
func TestForget(t *testing.T) {
	s := start(t, containers.RedisOptions{})
	id := s.box.ID
	say(t, s.Addr(), "SET k v")
	if got := say(t, s.Addr(), "SAVE"); got != "+OK" {
		t.Fatalf("SAVE: %s", got)
	}
	must(t, s.Restart(t.Context(), containers.Forget))
	if got := say(t, s.Addr(), "GET k"); got != "$-1" {
		t.Errorf("it remembers %q", got)
	}
	if s.box.ID != id {
		t.Error("it is another container, which takes longer to make")
	}
}

func TestPause(t *testing.T) {
	s := start(t, containers.RedisOptions{})
	must(t, errors.Join(s.Pause(), s.Pause()))
	if got := say(t, s.Addr(), "PING"); got != "error" {
		t.Errorf("a server that stands still said %q", got)
	}
	must(t, errors.Join(s.Resume(), s.Resume()))
	if got := say(t, s.Addr(), "PING"); got != "+PONG" {
		t.Errorf("it said %q after the pause", got)
	}
	must(t, s.Pause()) // Stop of a paused server ends, and so does Close
	must(t, s.Stop(t.Context()))
	if err := s.Pause(); !errors.Is(err, errNotRunning) {
		t.Errorf("pause of an ended server: %v", err)
	}
	must(t, s.Start(t.Context()))
	must(t, s.Pause())
}

// TestPeer: a replica finds its primary, and what the server writes is told.
func TestPeer(t *testing.T) {
	for network, start := range networks {
		t.Run(network, func(t *testing.T) { replicates(t, start) })
	}
}

func replicates(t *testing.T, start func(*testing.T, containers.RedisOptions) *server) {
	var log strings.Builder
	s := start(t, containers.RedisOptions{})
	if !strings.Contains(s.About(), Built) {
		t.Errorf("it says that it is %s", s.About())
	}
	host, port, err := net.SplitHostPort(s.Peer())
	must(t, err)
	o := containers.RedisOptions{Directives: []string{"replicaof " + host + " " + port}}
	o.Log = &log
	replica := start(t, o)
	must(t, replica.Close())
	if !strings.Contains(log.String(), "PRIMARY <-> REPLICA sync started") {
		t.Errorf("the log does not tell of a primary: %s", log.String())
	}
}

// TestLoopback: nobody outside this machine reaches a server, though it has a
// network of its own.
func TestLoopback(t *testing.T) {
	s := startApart(t, containers.RedisOptions{})
	state, err := s.box.Inspect(t.Context())
	must(t, err)
	for port, to := range state.NetworkSettings.Ports {
		for _, b := range to {
			if !b.HostIP.IsLoopback() {
				t.Errorf("%s is open at %s", port, b.HostIP)
			}
		}
	}
}

// TestBad: what is wrong is told, and nothing is left.
func TestBad(t *testing.T) {
	d := needImage(t)
	for _, test := range []struct {
		what string
		o    containers.RedisOptions
		says string
	}{
		{"a directive", containers.RedisOptions{Directives: []string{"no-such-directive 1"}}, "no-such-directive"},
		{"a program", containers.RedisOptions{Program: "no-such-server"}, "no-such-server"},
		{"an image", containers.RedisOptions{Options: containers.Options{Image: "lockcheck.invalid/no-such-image:1"}}, "no-such-image"},
		{"the name of an image", containers.RedisOptions{Options: containers.Options{Image: "UPPER"}}, "UPPER"},
		{"a way", containers.RedisOptions{Options: containers.Options{Via: "dokcer"}}, "dokcer"},
	} {
		test.o.Docker = d
		if test.o.Via == "" {
			test.o.Via = containers.Docked
		}
		s, err := containers.Valkey(t.Context(), &test.o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: the error does not tell: %v", test.what, err)
		}
	}
	if n := left(t, labelKey+"="+own()); n > 0 {
		t.Errorf("%d containers are left", n)
	}
}

// TestCycles: start and end leave no container and no port.
func TestCycles(t *testing.T) {
	cycles := 3
	if os.Getenv("LOCKCHECK_FULL") != "" {
		cycles = 100
	}
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			begin := time.Now()
			for range cycles {
				s, err := start(t.Context(), containers.Options{Docker: needImage(t), Via: containers.Docked})
				must(t, err)
				addr := s.Addr()
				must(t, s.Close())
				if c, err := net.Dial("tcp", addr); err == nil {
					c.Close()
					t.Fatalf("somebody still listens at %s", addr)
				}
			}
			if n := left(t, labelKey+"="+own()); n > 0 {
				t.Errorf("%d containers are left", n)
			}
			t.Logf("%d cycles, %v each", cycles, time.Since(begin)/time.Duration(cycles))
		})
	}
}

// kinds start one server of each kind.
var kinds = map[string]func(ctx context.Context, o containers.Options) (containers.Server, error){
	"valkey": func(ctx context.Context, o containers.Options) (containers.Server, error) {
		return containers.Valkey(ctx, &containers.RedisOptions{Options: o})
	},
	"postgres": func(ctx context.Context, o containers.Options) (containers.Server, error) {
		return containers.Postgres(ctx, &containers.PostgresOptions{Options: o, Password: "x"})
	},
}

// victim starts a container, stops it, says what it started and waits for its
// death.
func victim(kind string) {
	s, err := kinds[kind](context.Background(), containers.Options{Guard: &driver.Guard{}, Docker: &Docker{}, Via: containers.Docked})
	if err == nil {
		err = s.Pause()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.(*server).label)
	select {}
}

// TestKilled: a container does not outlive the program that started it, though
// that is killed and the container stopped.
func TestKilled(t *testing.T) {
	needImage(t)
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) { killed(t, kind) })
	}
}

// killed kills a program that started a server.
func killed(t *testing.T, kind string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envVictim+"="+kind)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	var label string
	_, err = fmt.Fscan(out, &label)
	before := left(t, labelKey+"="+label)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	must(t, err)
	if before != 1 {
		t.Errorf("%d containers ran", before)
	}
	for limit := time.Now().Add(10 * time.Second); left(t, labelKey+"="+label) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the container outlived its program by 10s")
		}
	}
}

// TestUnreachable: an error says what to do.
func TestUnreachable(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run", "TestNobodyThere")
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix:///nonexistent/docker.sock", "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNobodyThere(t *testing.T) {
	if !strings.Contains(os.Getenv("DOCKER_HOST"), "nonexistent") {
		t.Skip("TestUnreachable runs it")
	}
	o := &containers.RedisOptions{Options: containers.Options{Docker: &Docker{}, Via: containers.Docked}}
	_, err := containers.Valkey(t.Context(), o)
	if !errors.Is(err, lockspec.ErrUnavailable) || !strings.Contains(err.Error(), "service docker start") {
		t.Errorf("it says %v", err)
	}
	o.Via, o.Program = containers.Auto, "no-such-server"
	_, err = containers.Valkey(t.Context(), o)
	var missing *containers.MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "apt-get install") || !strings.Contains(err.Error(), "service docker start") {
		t.Errorf("it says %v", err)
	}
}

// TestPrefix: an image that a registry has is looked for where the user says;
// the one that is built here is in no registry.
func TestPrefix(t *testing.T) {
	needImage(t)
	cmd := exec.Command(os.Args[0], "-test.run", "TestWithPrefix")
	cmd.Env = append(os.Environ(), "TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX="+prefix)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

const prefix = "localhost:1/mirror"

func TestWithPrefix(t *testing.T) {
	if os.Getenv("TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX") != prefix {
		t.Skip("TestPrefix runs it")
	}
	start(t, containers.RedisOptions{})
	o := &containers.RedisOptions{Options: containers.Options{Docker: &Docker{}, Via: containers.Docked, Image: "valkey/valkey:9"}}
	_, err := containers.Valkey(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "localhost:1/") {
		t.Errorf("it says %v", err)
	}
}
