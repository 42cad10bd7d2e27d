package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/containers/docker"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reference/memory"
)

// envServe makes this program the embedded server.
const envServe = "LOCKCHECK_SERVE"

// serveIfAsked makes the program what its environment asks for: a driver, the
// guard, or the embedded server. Then it does not return.
func serveIfAsked() {
	driver.Main(openLock)
	docker.Main()
	if os.Getenv(envServe) == "" {
		return
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lockcheck: embedded server:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve serves a store on loopback and says where, until its input ends: a
// server outlives nobody.
func serve(in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	data, admin, err := memory.Listen()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s\n", data.Addr(), admin.Addr())
	return memory.Serve(ctx, data, admin, nil)
}

// server is a running embedded server.
type server struct {
	addr, admin string
	cmd         *exec.Cmd
	in          io.Closer
	guard       *driver.Guard
}

const serverStart = 10 * time.Second

// startServer starts the embedded server as a child process that the guard
// knows of, and waits until it serves.
func startServer(ctx context.Context, guard *driver.Guard, log io.Writer) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envServe+"=1")
	cmd.Stderr = log
	ownGroup(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	guard.Started(cmd.Process.Pid)
	s := &server{cmd: cmd, in: in, guard: guard}
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		if n, _ := fmt.Sscan(text, &s.addr, &s.admin); n != 2 {
			s.close()
			return nil, fmt.Errorf("embedded server said %q", strings.TrimSpace(text))
		}
		return s, nil
	case <-time.After(serverStart):
		s.close()
		return nil, fmt.Errorf("embedded server said nothing for %s", serverStart)
	case <-ctx.Done():
		s.close()
		return nil, ctx.Err()
	}
}

func (s *server) close() {
	_ = s.in.Close()
	_ = s.cmd.Process.Kill()
	s.guard.Ended(s.cmd.Process.Pid)
	_ = s.cmd.Wait()
}
