package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec/driver"
)

// program says how a kind of server runs as a process of this machine.
type program struct {
	name string // for folders and messages
	path string
	// prepare writes what the server reads into its folder and gives its
	// arguments.
	prepare func(folder string, port int) ([]string, error)
	// ready is nil once the server at the address serves.
	ready func(ctx context.Context, addr string) error
	// data are the names in the folder that hold what was written.
	data []string
	env  []string // NAME=VALUE, besides this program's own
}

// local is a server that is a process group of its own, in a temporary folder,
// on a free port of the loopback interface.
type local struct {
	program program
	opts    Options
	folder  string
	log     *tail

	life   sync.Mutex // held by what starts and ends it
	closed bool
	run    *running // nil when it does not run

	mu   sync.Mutex
	port int
}

// running is one process of a server.
type running struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed at the end of what it writes
}

// startLocal makes the folder and starts the program.
func startLocal(ctx context.Context, p program, o *Options) (*local, error) {
	s := &local{program: p}
	if o != nil {
		s.opts = *o
	}
	if s.opts.StartLimit == 0 {
		s.opts.StartLimit = startLimit
	}
	s.log = &tail{to: s.opts.Log}
	folder, err := os.MkdirTemp("", driver.FolderPrefix+p.name+"-")
	if err != nil {
		return nil, err
	}
	s.folder = folder
	s.opts.Guard.Folder(folder)
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Addr implements Server.
func (s *local) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("127.0.0.1:%d", s.port)
}

// Peer implements Server.
func (s *local) Peer() string { return s.Addr() }

// About implements Server.
func (s *local) About() string { return s.program.path }

// Log implements Server.
func (s *local) Log() string { return s.log.String() }

var errClosed = errors.New("the server was closed")

// Start implements Server.
func (s *local) Start(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.start(ctx)
}

// attempts bounds how often a port is chosen anew: between the moment it was
// seen to be free and the server's bind, another may take it.
const attempts = 3

func (s *local) start(ctx context.Context) error {
	if s.closed {
		return errClosed
	}
	if s.run != nil {
		return nil
	}
	var err error
	for range attempts {
		if err = s.launch(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (s *local) launch(ctx context.Context) error {
	port, err := freePort(s.port)
	if err != nil {
		return err
	}
	args, err := s.program.prepare(s.folder, port)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.port = port
	s.mu.Unlock()
	if err := s.spawn(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.StartLimit)
	defer cancel()
	if err := s.awaitReady(ctx); err != nil {
		return fmt.Errorf("%s: %w; it wrote: %s", s.program.name, errors.Join(err, s.kill()), s.log)
	}
	return nil
}

func (s *local) spawn(args []string) error {
	cmd := exec.Command(s.program.path, args...)
	cmd.Dir = s.folder
	cmd.Env = append(os.Environ(), s.program.env...)
	ownGroup(cmd)
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		out.Close()
		return err
	}
	s.opts.Guard.Started(cmd.Process.Pid)
	r := &running{cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(r.exited)
		defer out.Close()
		s.log.from(out)
	}()
	s.run = r
	return nil
}

// readyEvery is how often a server that starts is asked; Redis needs 20 to
// 50 ms.
const readyEvery = 5 * time.Millisecond

func (s *local) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	var last error
	for {
		if last = s.program.ready(ctx, s.Addr()); last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.run.exited:
			return errors.New("it ended instead of serving")
		case <-ctx.Done():
			return fmt.Errorf("it does not serve: %w", last)
		}
	}
}

// Stop implements Server.
func (s *local) Stop(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.run == nil {
		return nil
	}
	if err := terminate(s.run.cmd.Process); err == nil {
		_ = continueGroup(s.run.cmd.Process) // one that is paused would not hear of it
		select {
		case <-s.run.exited:
		case <-ctx.Done():
		}
	}
	return errors.Join(ctx.Err(), s.kill())
}

// Kill implements Server.
func (s *local) Kill() error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.kill()
}

// kill ends the whole group and reaps its leader. The guard is told in
// between: afterwards the number may be somebody else's.
func (s *local) kill() error {
	r := s.run
	if r == nil {
		return nil
	}
	s.run = nil
	err := killGroup(r.cmd.Process)
	s.opts.Guard.Ended(r.cmd.Process.Pid)
	_ = r.cmd.Wait() // how it ended is known
	return err
}

// Restart implements Server.
func (s *local) Restart(ctx context.Context, data Data) error {
	s.life.Lock()
	defer s.life.Unlock()
	if err := s.kill(); err != nil {
		return err
	}
	if data == Forget {
		for _, name := range s.program.data {
			if err := os.RemoveAll(filepath.Join(s.folder, name)); err != nil {
				return err
			}
		}
	}
	return s.start(ctx)
}

// Pause implements Server.
func (s *local) Pause() error { return s.signal(stopGroup) }

// Resume implements Server.
func (s *local) Resume() error { return s.signal(continueGroup) }

var errNotRunning = errors.New("the server does not run")

func (s *local) signal(send func(*os.Process) error) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.run == nil {
		return errNotRunning
	}
	return send(s.run.cmd.Process)
}

// Close implements Server.
func (s *local) Close() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := errors.Join(s.kill(), os.RemoveAll(s.folder))
	if err == nil {
		s.opts.Guard.FolderGone(s.folder)
	}
	return err
}

// freePort is the wanted port if nobody listens there, else another that is
// free.
func freePort(wanted int) (int, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", wanted))
	if err != nil && wanted != 0 {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
