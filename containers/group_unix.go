//go:build unix

package containers

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes a server the leader of a process group: no Ctrl-C at the
// terminal reaches it, and what it forks ends with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func terminate(p *os.Process) error { return signalGroup(p, syscall.SIGTERM) }

// killGroup ends a group, stopped or not. One that has ended is no error.
func killGroup(p *os.Process) error {
	if err := signalGroup(p, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func stopGroup(p *os.Process) error     { return signalGroup(p, syscall.SIGSTOP) }
func continueGroup(p *os.Process) error { return signalGroup(p, syscall.SIGCONT) }

// signalGroup signals every process of the group that p leads. p is not
// reaped yet, so its number is nobody else's.
func signalGroup(p *os.Process, sig syscall.Signal) error {
	return os.NewSyscallError("kill", syscall.Kill(-p.Pid, sig))
}
