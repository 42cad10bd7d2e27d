package driver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is one incarnation of a driver: a process group of its own and the
// three pipes to its leader.
type process struct {
	cmd    *exec.Cmd
	pgid   int
	stdin  *os.File
	stdout *os.File
	stderr *tail

	exited chan struct{} // closed once it is reaped and its group is gone
	told   chan struct{} // closed once whoever is to know of its end knows

	greeted bool // it answered hello; under the node's mu
	asked   bool // its end was asked for; under the node's mu
}

// drainLimit bounds the wait for the rest of a dead driver's pipes, which a
// process that left the group might keep open.
const drainLimit = time.Second

func startProcess(c *Config, command []string) (*process, error) {
	var pipes [3][2]*os.File
	closeAll := func(end ...int) {
		for _, p := range pipes {
			for _, i := range end {
				if p[i] != nil {
					p[i].Close()
				}
			}
		}
	}
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(0, 1)
			return nil, err
		}
		if i == 0 {
			r, w = w, r // ours first
		}
		pipes[i] = [2]*os.File{r, w}
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(append(os.Environ(), c.Env...), EnvDriver+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes[0][1], pipes[1][1], pipes[2][1]
	ownGroup(cmd)
	err := cmd.Start()
	closeAll(1)
	if err != nil {
		closeAll(0)
		return nil, err
	}
	p := &process{cmd: cmd, pgid: cmd.Process.Pid, stdin: pipes[0][0], stdout: pipes[1][0], exited: make(chan struct{}), told: make(chan struct{})}
	c.Guard.Started(p.pgid)
	p.stderr = newTail(pipes[2][0], c.Log)
	go p.reap(c.Guard)
	return p, nil
}

// reap waits for the end of the leader and ends what is left of its group: where
// the system allows it, before the leader is reaped, because a zombie keeps the
// group's number from being given to somebody else.
func (p *process) reap(guard *Guard) {
	zombie := awaitExit(p.pgid)
	if !zombie {
		_ = p.cmd.Wait() // its ProcessState tells
	}
	awaitGroup(p.pgid, time.Now().Add(drainLimit))
	guard.Ended(p.pgid)
	if zombie {
		_ = p.cmd.Wait()
	}
	p.stdin.Close()
	p.stderr.close()
	close(p.exited)
}

// kill ends the group, stopped or not, and waits until it is gone.
func (p *process) kill() error {
	select {
	case <-p.exited:
		return nil
	default:
	}
	err := killGroup(p.pgid)
	select {
	case <-p.exited:
		return nil
	case <-time.After(guardLimit):
		return errors.Join(err, fmt.Errorf("process %d does not end", p.pgid))
	}
}

// deaf closes the stdout that nobody reads any more, and ends a driver that
// goes on without one.
func (p *process) deaf() {
	p.stdout.Close()
	select {
	case <-p.exited:
	case <-time.After(drainLimit):
		_ = p.kill()
	}
}

// stop stops the group and waits until it is.
func (p *process) stop() error {
	if err := stopGroup(p.pgid); err != nil {
		return err
	}
	for limit := time.Now().Add(guardLimit); !groupStopped(p.pgid); {
		select {
		case <-p.exited:
			return fmt.Errorf("process group %d has ended", p.pgid)
		default:
		}
		if time.Now().After(limit) {
			return errors.Join(fmt.Errorf("process group %d does not stop", p.pgid), continueGroup(p.pgid))
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// tail passes the lines of a pipe on and remembers the last ones.
type tail struct {
	pipe *os.File
	done chan struct{}
	mu   sync.Mutex
	last []string
}

func newTail(pipe *os.File, log io.Writer) *tail {
	t := &tail{pipe: pipe, done: make(chan struct{})}
	go t.follow(log)
	return t
}

func (t *tail) follow(log io.Writer) {
	const kept = 3
	defer close(t.done)
	defer t.pipe.Close()
	for lines := bufio.NewReader(t.pipe); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			if log != nil {
				_, _ = io.WriteString(log, line)
			}
			t.mu.Lock()
			t.last = append(t.last, strings.TrimSpace(clip([]byte(line))))
			t.last = t.last[max(0, len(t.last)-kept):]
			t.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// close waits for the rest of the lines.
func (t *tail) close() {
	select {
	case <-t.done:
	case <-time.After(drainLimit):
		t.pipe.Close()
		<-t.done
	}
}

// String is the last lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.last, " | ")
}
