//go:build unix

package driver

import (
	"os"
	"os/exec"
	"syscall"
)

// canSession says whether the system can start a program in a session of its
// own, which a guard needs.
const canSession = true

// ownGroup starts cmd as the leader of a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// ownSession starts cmd as the leader of a session of its own, so that no
// signal from a terminal reaches it.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// The signals below go to every process of a group.

func killGroup(pgid int) error     { return signalGroup(pgid, syscall.SIGKILL) }
func stopGroup(pgid int) error     { return signalGroup(pgid, syscall.SIGSTOP) }
func continueGroup(pgid int) error { return signalGroup(pgid, syscall.SIGCONT) }

func signalGroup(pgid int, sig syscall.Signal) error {
	if pgid <= 1 { // -1 would be everybody, 0 ourselves
		return os.ErrInvalid
	}
	return os.NewSyscallError("kill", syscall.Kill(-pgid, sig))
}
