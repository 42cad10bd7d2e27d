//go:build unix

package containers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
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

// interrupt asks a server alone, not what it forked.
func interrupt(p *os.Process) error { return p.Signal(os.Interrupt) }

// account is whom a program runs as.
type account struct{ uid, gid uint32 }

// unprivileged is an account for a program that refuses to run as root: the
// first of the names that there is. Nil: this program does not run as root.
func unprivileged(names ...string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		return &account{uint32(uid), uint32(gid)}, errors.Join(err1, err2)
	}
	return nil, fmt.Errorf("the program does not run as root, and none of the users %v is there", names)
}

// run makes a program run as the account; nil: as this program does.
func (a *account) run(cmd *exec.Cmd) {
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
}

// own gives a file or a folder to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}
