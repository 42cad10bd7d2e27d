//go:build !unix

package driver

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/lockcheck/lockcheck/lockspec"
)

const canSession = false

func ownGroup(*exec.Cmd)   {}
func ownSession(*exec.Cmd) {}

// killGroup ends the process; the system knows no groups.
func killGroup(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer process.Release()
	return process.Kill()
}

func stopGroup(int) error {
	return fmt.Errorf("%w: pause: %s cannot stop a process", lockspec.ErrUnsupported, runtime.GOOS)
}

func continueGroup(int) error {
	return fmt.Errorf("%w: resume: %s cannot stop a process", lockspec.ErrUnsupported, runtime.GOOS)
}

func groupAlive(int) bool { return false }
