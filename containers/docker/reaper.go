package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"
)

// labelKey marks every container of ours; its value tells whose it is.
const labelKey = "io.lockcheck.run"

// own is the label of what this program starts without a guard.
var own = sync.OnceValue(rand.Text)

// EnvReaper makes a program that calls [Main] a reaper.
const EnvReaper = "LOCKCHECK_REAPER"

// canReap says that [Main] was called.
var canReap atomic.Bool

// Main is the first thing that a program does which starts containers with a
// guard. In a process that was started as a reaper it does not return.
//
// A reaper outlives the program that started it by a moment. It waits until its
// standard input ends, because the program closed it or was killed, and removes
// every container with the program's label.
func Main() {
	label := os.Getenv(EnvReaper)
	if label == "" {
		canReap.Store(true)
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := reap(ctx, label); err != nil {
		fmt.Fprintln(os.Stderr, "containers may be left:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// reap removes what has the label. One may appear while it does so: the daemon
// goes on making what it was asked for by somebody who is dead.
func reap(ctx context.Context, label string) error {
	c, err := newClient(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var errs []error
	for quiet := 0; quiet < 2; {
		list, err := c.ContainerList(ctx, client.ContainerListOptions{All: true,
			Filters: make(client.Filters).Add("label", labelKey+"="+label)})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			quiet++
			time.Sleep(settle)
		}
		errs = nil
		for _, i := range list.Items {
			_, err := c.ContainerRemove(ctx, i.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
	}
	return errors.Join(errs...)
}

// settle is how long the daemon is given to finish what it was asked for.
const settle = 100 * time.Millisecond

// reaper is the process that removes containers when this one ends.
type reaper struct {
	label string
	cmd   *exec.Cmd
	pipe  io.Closer
}

func startReaper() (*reaper, error) {
	if !canReap.Load() {
		return nil, errors.New("containers with a guard need docker.Main at the beginning of the program")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &reaper{label: rand.Text(), cmd: exec.Command(self)}
	r.cmd.Env = append(os.Environ(), EnvReaper+"="+r.label)
	r.cmd.Stderr = os.Stderr
	ownSession(r.cmd)
	if r.pipe, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return r, r.cmd.Start()
}

// close makes it remove what is left and waits for that.
func (r *reaper) close() error {
	return errors.Join(r.pipe.Close(), r.cmd.Wait())
}
