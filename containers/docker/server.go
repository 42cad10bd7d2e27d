package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/lockcheck/lockcheck/containers"
)

// server is one container. Where a caller's context may have ended, as when it
// is closed, the daemon is given callLimit.
type server struct {
	client *client.Client
	kind   containers.Image
	opts   containers.Options
	name   string // of the image
	label  string
	apart  bool // a network of its own

	life    sync.Mutex // held by what starts and ends it
	closed  bool
	box     *testcontainers.DockerContainer // nil: none was made
	running bool
	paused  bool
	port    int // where it listens in its network

	mu         sync.Mutex
	addr, peer string
}

// The limits of what is asked of the daemon.
const (
	callLimit  = 30 * time.Second
	startLimit = 30 * time.Second
)

// Addr implements containers.Server.
func (s *server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Peer implements containers.Server.
func (s *server) Peer() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peer
}

// About implements containers.Server.
func (s *server) About() string { return "image " + s.name }

var errClosed = errors.New("the server was closed")

// Start implements containers.Server.
func (s *server) Start(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.start(ctx)
}

func (s *server) start(ctx context.Context) error {
	if s.closed {
		return errClosed
	}
	if s.running {
		return nil
	}
	var err error
	for range attempts {
		var retry bool
		if retry, err = s.launch(ctx); err == nil || !retry {
			return err
		}
	}
	return err
}

// attempts bounds how often a port of this machine is chosen anew: between the
// moment it was seen to be free and the server's bind, another may take it.
const attempts = 3

// launch makes a container, or starts the one that there is. A container that
// could not be made as it was asked for is there all the same.
func (s *server) launch(ctx context.Context) (retry bool, err error) {
	fresh := s.box == nil
	if fresh {
		if err := s.choosePort(); err != nil {
			return false, err
		}
		s.box, err = testcontainers.Run(ctx, s.name, s.request()...)
	} else {
		err = s.box.Start(ctx)
	}
	if err == nil {
		s.running = true
		err = s.awaitReady(ctx)
	}
	if err == nil {
		return false, nil
	}
	retry = fresh && s.running && !s.apart && errors.Is(err, errEnded)
	err = fmt.Errorf("%w; it wrote: %s", err, s.Log())
	if fresh {
		return retry, errors.Join(err, s.remove())
	}
	return false, errors.Join(err, s.kill())
}

func (s *server) choosePort() error {
	s.port = s.kind.Port
	if s.apart {
		return nil
	}
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		return err
	}
	defer l.Close()
	s.port = l.Addr().(*net.TCPAddr).Port
	return nil
}

// request is what the container is made of. Its port is open on the loopback
// interface only.
func (s *server) request() []testcontainers.ContainerCustomizer {
	bind := loopback
	if s.apart {
		bind = "0.0.0.0"
	}
	command, files := s.kind.At(bind, s.port)
	tmpfs := map[string]string{}
	if s.kind.Scratch != "" {
		tmpfs[s.kind.Scratch] = ""
	}
	all := []testcontainers.ContainerCustomizer{
		testcontainers.WithTmpfs(tmpfs),
		testcontainers.WithEntrypoint(command[0]),
		testcontainers.WithCmd(command[1:]...),
		testcontainers.WithLabels(map[string]string{labelKey: s.label}),
		testcontainers.WithConfigModifier(func(c *container.Config) { c.User, c.StopSignal = s.kind.User, cmp.Or(s.kind.End, "SIGTERM") }),
	}
	if s.apart {
		inside := network.MustParsePort(strconv.Itoa(s.port) + "/tcp")
		all = append(all, testcontainers.WithExposedPorts(inside.String()), testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
			c.PortBindings = network.PortMap{inside: {{HostIP: netip.MustParseAddr(loopback)}}}
		}))
	} else {
		all = append(all, testcontainers.WithHostConfigModifier(func(c *container.HostConfig) { c.NetworkMode = "host" }))
	}
	mode := int64(0o600)
	if s.kind.User != "" {
		mode = 0o644 // files are root's; nobody else is in the container to read them
	}
	for path, text := range files {
		all = append(all, testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader(text), ContainerFilePath: path, FileMode: mode}))
	}
	if s.opts.Log != nil {
		all = append(all, testcontainers.WithLogConsumers(logTo{s.opts.Log}))
	}
	return all
}

type logTo struct{ w io.Writer }

// Accept implements testcontainers.LogConsumer. A log that cannot be written
// stops no server.
func (l logTo) Accept(log testcontainers.Log) { _, _ = l.w.Write(log.Content) }

// readyEvery is how often a server that starts is asked.
const readyEvery = 10 * time.Millisecond

func (s *server) awaitReady(ctx context.Context) error {
	limit := s.opts.StartLimit
	if limit == 0 {
		limit = startLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := s.locate(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for {
		last := s.kind.Ready(ctx, s.Addr())
		if last == nil {
			return nil
		}
		if state, err := s.box.State(ctx); err == nil && !state.Running {
			return errEnded
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("it does not serve: %w", last)
		}
	}
}

var errEnded = errors.New("it ended instead of serving")

// locate finds out where it is. In a network of its own, both addresses change
// with every start.
func (s *server) locate(ctx context.Context) error {
	at := net.JoinHostPort(loopback, strconv.Itoa(s.port))
	peer := at
	if s.apart {
		ip, err := s.box.ContainerIP(ctx)
		if err != nil {
			return err
		}
		peer = net.JoinHostPort(ip, strconv.Itoa(s.port))
		if at, err = s.box.PortEndpoint(ctx, strconv.Itoa(s.port)+"/tcp", ""); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr, s.peer = at, peer
	return nil
}

// Stop implements containers.Server.
func (s *server) Stop(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if !s.running {
		return nil
	}
	err := s.resume() // one that is paused would not hear of it
	s.running = false
	return errors.Join(err, s.box.Stop(ctx, nil))
}

// Kill implements containers.Server.
func (s *server) Kill() error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.kill()
}

// kill ends the server and waits for its end.
func (s *server) kill() error {
	if !s.running {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	ended := s.client.ContainerWait(ctx, s.box.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	_, err := s.client.ContainerKill(ctx, s.box.ID, client.ContainerKillOptions{Signal: "KILL"})
	if err != nil && !errdefs.IsConflict(err) { // it ended by itself
		return err
	}
	s.running, s.paused = false, false
	select {
	case <-ended.Result:
		return nil
	case err := <-ended.Error:
		return err
	}
}

// Restart implements containers.Server.
func (s *server) Restart(ctx context.Context, data containers.Data) error {
	s.life.Lock()
	defer s.life.Unlock()
	err := s.kill()
	if err == nil && data == containers.Forget && s.kind.Scratch == "" {
		err = s.remove()
	}
	if err != nil {
		return err
	}
	return s.start(ctx)
}

// remove removes the container and all that it wrote.
func (s *server) remove() error {
	if s.box == nil {
		return nil
	}
	if err := s.kill(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := s.box.Terminate(ctx, testcontainers.StopTimeout(0)); err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	s.box = nil
	return nil
}

var errNotRunning = errors.New("the server does not run")

// Pause implements containers.Server.
func (s *server) Pause() error {
	s.life.Lock()
	defer s.life.Unlock()
	if !s.running {
		return errNotRunning
	}
	if s.paused {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	_, err := s.client.ContainerPause(ctx, s.box.ID, client.ContainerPauseOptions{})
	s.paused = err == nil
	return err
}

// Resume implements containers.Server.
func (s *server) Resume() error {
	s.life.Lock()
	defer s.life.Unlock()
	if !s.running {
		return errNotRunning
	}
	return s.resume()
}

func (s *server) resume() error {
	if !s.paused {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	_, err := s.client.ContainerUnpause(ctx, s.box.ID, client.ContainerUnpauseOptions{})
	s.paused = err != nil
	return err
}

// tailSize is what is told of a server's log.
const tailSize = 4096

// Log implements containers.Server.
func (s *server) Log() string {
	if s.box == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	r, err := s.box.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	text, _ := io.ReadAll(r)
	return strings.TrimSpace(string(text[max(0, len(text)-tailSize):]))
}

// Close implements containers.Server.
func (s *server) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	err := s.remove()
	if err == nil {
		s.closed = true
		err = s.client.Close()
	}
	return err
}
