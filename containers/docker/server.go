package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	life    sync.Mutex // held by what starts and ends it
	closed  bool
	box     *testcontainers.DockerContainer // nil: none was made
	running bool
	paused  bool

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
	err := s.launch(ctx)
	if err == nil {
		s.running = true
		err = s.awaitReady(ctx)
	}
	if err != nil {
		log := s.Log()
		return fmt.Errorf("%w; it wrote: %s", errors.Join(err, s.kill()), log)
	}
	return nil
}

// launch makes a container, or starts the one that there is. A container that
// could not be made as it was asked for is there all the same.
func (s *server) launch(ctx context.Context) error {
	if s.box != nil {
		return s.box.Start(ctx)
	}
	var err error
	s.box, err = testcontainers.Run(ctx, s.name, s.request()...)
	return err
}

// request is what the container is made of. Its port is open on the loopback
// interface only.
func (s *server) request() []testcontainers.ContainerCustomizer {
	port := s.port()
	all := []testcontainers.ContainerCustomizer{
		testcontainers.WithEntrypoint(s.kind.Command[0]),
		testcontainers.WithCmd(s.kind.Command[1:]...),
		testcontainers.WithExposedPorts(port.String()),
		testcontainers.WithLabels(map[string]string{labelKey: s.label}),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
			c.PortBindings = network.PortMap{port: {{HostIP: netip.MustParseAddr(loopback)}}}
		}),
	}
	for path, text := range s.kind.Files {
		all = append(all, testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader(text), ContainerFilePath: path, FileMode: 0o600}))
	}
	if s.opts.Log != nil {
		all = append(all, testcontainers.WithLogConsumers(logTo{s.opts.Log}))
	}
	return all
}

func (s *server) port() network.Port {
	p, _ := network.PortFrom(uint16(s.kind.Port), network.TCP) // a port of ours is one
	return p
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
			return errors.New("it ended instead of serving")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("it does not serve: %w", last)
		}
	}
}

// locate finds out where it is: both addresses change with every start.
func (s *server) locate(ctx context.Context) error {
	addr, err := s.box.PortEndpoint(ctx, s.port().String(), "")
	if err != nil {
		return err
	}
	ip, err := s.box.ContainerIP(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr, s.peer = addr, ip+":"+strconv.Itoa(s.kind.Port)
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
	if err == nil && data == containers.Forget {
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
