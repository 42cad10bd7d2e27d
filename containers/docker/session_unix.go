//go:build unix

package docker

import (
	"os/exec"
	"syscall"
)

// ownSession keeps the signals of a terminal from a process.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
