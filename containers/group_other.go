//go:build !unix

package containers

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/lockcheck/lockcheck/lockspec"
)

func ownGroup(*exec.Cmd) {}

func terminate(p *os.Process) error { return p.Kill() }
func killGroup(p *os.Process) error { return p.Kill() }

func stopGroup(*os.Process) error     { return errNoStop }
func continueGroup(*os.Process) error { return errNoStop }

var errNoStop = fmt.Errorf("%w: %s cannot stop and continue a process", lockspec.ErrUnsupported, runtime.GOOS)

func interrupt(p *os.Process) error { return p.Kill() }

type account struct{}

func unprivileged(...string) (*account, error) { return nil, nil }

func (*account) run(*exec.Cmd)    {}
func (*account) own(string) error { return nil }
