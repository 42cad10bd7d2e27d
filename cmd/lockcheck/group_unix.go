//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a child a process group of its own: a Ctrl-C at the terminal
// is for lockcheck, which ends its children in the right order.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
