//go:build unix

package driver

import (
	"os"
	"syscall"
)

// takeStdout keeps the real stdout for the protocol and points everything else
// that writes there at stderr: also what has kept os.Stdout since before Main,
// and code that is not Go. Children do not inherit the protocol's end.
func takeStdout() (*os.File, error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Dup(syscall.Stdout)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	if err := dup2(syscall.Stderr, syscall.Stdout); err != nil {
		return nil, os.NewSyscallError("dup2", err)
	}
	os.Stdout = os.Stderr
	return os.NewFile(uintptr(fd), "protocol"), nil
}
