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
	"syscall"
	"time"

	"github.com/lockcheck/lockcheck/lockspec/driver"
)

// program says how a kind of server runs as a process of this machine.
type program struct {
	name string // for folders and messages
	path string
	// prepare writes what the server reads into its folder and gives its
	// arguments.
	prepare func(ctx context.Context, s *local, port int) ([]string, error)
	// ready is nil once the server at the address serves.
	ready func(ctx context.Context, addr string) error
	// data are the names in the folder that hold what was written.
	data []string
	// as is whom it runs as; nil: whom this program runs as.
	as *account
	// env is its environment; nil: this program's.
	env []string
	// end asks it to end in order; nil: terminate.
	end func(*os.Process) error
	// forks says that what it forks leads process groups of its own, so that a
	// signal to its group reaches itself and no more.
	forks bool
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
	exited chan struct{} // closed at the end of what it writes, and what it forked
	paused []int         // what it forked and Pause has stopped
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
	if err := errors.Join(p.as.own(folder), s.Start(ctx)); err != nil {
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
	args, err := s.program.prepare(ctx, s, port)
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

func (s *local) spawn(args []string) (err error) {
	s.run, err = s.begin(s.program.path, args, s.log)
	return err
}

// begin starts a program that works in the server's folder, as the server does.
func (s *local) begin(path string, args []string, log *tail) (*running, error) {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = s.folder, s.program.env
	ownGroup(cmd)
	s.program.as.run(cmd)
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		out.Close()
		return nil, err
	}
	s.opts.Guard.Started(cmd.Process.Pid)
	r := &running{cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(r.exited)
		defer out.Close()
		log.from(out)
	}()
	return r, nil
}

// tool runs a program that ends by itself; what it wrote is part of an error.
func (s *local) tool(ctx context.Context, path string, args ...string) error {
	said := &tail{}
	r, err := s.begin(path, args, said)
	if err != nil {
		return err
	}
	select {
	case <-r.exited:
	case <-ctx.Done():
		_ = killGroup(r.cmd.Process)
	}
	s.opts.Guard.Ended(r.cmd.Process.Pid)
	if err := errors.Join(ctx.Err(), r.cmd.Wait()); err != nil {
		return fmt.Errorf("%s: %w; it wrote: %s", filepath.Base(path), err, said)
	}
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
	end := s.program.end
	if end == nil {
		end = terminate
	}
	if err := end(s.run.cmd.Process); err == nil {
		_ = s.resume() // one that is paused would not hear of it
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

// kill ends all that runs and reaps its leader. The guard is told in between:
// afterwards the number may be somebody else's.
func (s *local) kill() error {
	r := s.run
	if r == nil {
		return nil
	}
	s.run = nil
	var forked []int
	if s.program.forks {
		forked = stopTree(r.cmd.Process) // so that it forks no more
	}
	err := killGroup(r.cmd.Process)
	err = errors.Join(err, signalAll(forked, killGroup))
	if s.program.forks {
		select { // its memory and its port are free when all have ended
		case <-r.exited:
		case <-time.After(s.opts.StartLimit):
			err = errors.Join(err, errLingers)
		}
	}
	for _, pid := range append(r.paused, r.cmd.Process.Pid) {
		s.opts.Guard.Ended(pid)
	}
	_ = r.cmd.Wait() // how it ended is known
	return err
}

var errLingers = errors.New("what the server forked has not ended")

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
func (s *local) Pause() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.run == nil {
		return errNotRunning
	}
	if err := stopGroup(s.run.cmd.Process); err != nil || !s.program.forks {
		return err
	}
	// What is stopped hears of no end of its parent: the guard has to know it.
	s.run.paused = stopTree(s.run.cmd.Process)
	for _, pid := range s.run.paused {
		s.opts.Guard.Started(pid)
	}
	return signalAll(s.run.paused, stopGroup)
}

// Resume implements Server.
func (s *local) Resume() error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.resume()
}

func (s *local) resume() error {
	if s.run == nil {
		return errNotRunning
	}
	for _, pid := range s.run.paused {
		s.opts.Guard.Ended(pid)
	}
	err := signalAll(s.run.paused, continueGroup)
	s.run.paused = nil
	return errors.Join(err, continueGroup(s.run.cmd.Process))
}

// signalAll signals what a server forked. What has ended is no error.
func signalAll(pids []int, send func(*os.Process) error) (err error) {
	for _, pid := range pids {
		if e := send(&os.Process{Pid: pid}); !errors.Is(e, syscall.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err
}

var errNotRunning = errors.New("the server does not run")

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
