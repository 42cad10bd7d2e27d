// Package docker starts the servers of package containers in Docker. It is a
// module of its own: what it needs is much, and whoever starts programs of this
// machine needs none of it.
package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Built is the image that containers/images/build makes of Debian's packages.
// Where it is there it is used, except where Options.Image names another. No
// registry has it, and none can be asked for it: no host is ever called that
// (RFC 2606).
const Built = "lockcheck.invalid/servers:forky"

// Docker starts containers. It is a [containers.Docker]. The zero value is ready
// to be used; methods are safe for concurrent use.
//
// The settings of testcontainers-go hold: DOCKER_HOST says where the daemon is,
// TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX which registry stands in for Docker's
// own.
type Docker struct {
	// Apart gives every container a network of its own, of which one port is
	// open on the loopback interface. So it is anyway where the daemon's network
	// is not that of this program: on another machine, in a virtual one, without
	// root. Default: containers share the network of this machine, which makes
	// their start several times faster.
	Apart bool

	mu     sync.Mutex
	reaper *reaper // of all that was started with a guard; nil: nothing was
}

var _ containers.Docker = (*Docker)(nil)

// decide makes testcontainers-go do what a run needs. It reads the environment
// once, at its first use.
var decide = sync.OnceFunc(func() {
	setDefault := func(name, value string) {
		if _, set := os.LookupEnv(name); !set {
			os.Setenv(name, value)
		}
	}
	// Its reaper is another image to be pulled, and one that wants the daemon's
	// socket. What a run leaves behind is for a process of ours to remove.
	setDefault("TESTCONTAINERS_RYUK_DISABLED", "true")
	// A program that itself runs in something like a container would be given the
	// address of a gateway, where no port is open: they are on loopback only.
	if host := os.Getenv("DOCKER_HOST"); host == "" || strings.HasPrefix(host, "unix:") {
		setDefault("TESTCONTAINERS_HOST_OVERRIDE", loopback)
	}
	log.SetDefault(log.NewNoopLogger()) // what it has to say, errors say too
})

const loopback = "127.0.0.1"

// newClient is a way to the daemon. An error matches ErrUnavailable.
func newClient(ctx context.Context) (*client.Client, error) {
	decide()
	if err := asTold(ctx); err != nil {
		return nil, unreachable(err)
	}
	c, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	return c.Client, nil
}

// asTold is nil if DOCKER_HOST is not set, or answers. Without it,
// testcontainers-go would go on to look elsewhere.
func asTold(ctx context.Context) error {
	if os.Getenv("DOCKER_HOST") == "" {
		return nil
	}
	c, err := client.New(client.FromEnv)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Ping(ctx, client.PingOptions{})
	return err
}

func unreachable(err error) error {
	return fmt.Errorf("%w: no Docker daemon answers; start it (service docker start), or say where it is (DOCKER_HOST): %w", lockspec.ErrUnavailable, err)
}

// Reachable implements containers.Docker.
func (d *Docker) Reachable(ctx context.Context) error {
	c, err := newClient(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Ping(ctx, client.PingOptions{}); err != nil {
		return unreachable(err)
	}
	return nil
}

// Has says whether the daemon has an image.
func (d *Docker) Has(ctx context.Context, image string) (bool, error) {
	c, err := newClient(ctx)
	if err != nil {
		return false, err
	}
	defer c.Close()
	return has(ctx, c, image)
}

func has(ctx context.Context, c *client.Client, image string) (bool, error) {
	_, err := c.ImageInspect(ctx, image)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Start implements containers.Docker. With a guard in the options the container
// does not outlive this program, however that ends; the program must call
// [Main] then.
func (d *Docker) Start(ctx context.Context, i containers.Image, o *containers.Options) (containers.Server, error) {
	c, err := newClient(ctx)
	if err != nil {
		return nil, err
	}
	s := &server{client: c, kind: i, opts: *o, label: own()}
	s.name, err = choose(ctx, c, i, o)
	if err == nil {
		s.apart, err = d.apart(ctx, c)
	}
	if err == nil && o.Guard != nil {
		s.label, err = d.guarded()
	}
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s in Docker, image %q: %w", i.Kind, s.name, err), s.Close())
	}
	return s, nil
}

// apart says whether containers have networks of their own. The daemon shares
// this program's if it says that it runs as root on the machine of this name, a
// name that no container and no virtual machine has.
func (d *Docker) apart(ctx context.Context, c *client.Client) (bool, error) {
	if d.Apart || !strings.HasPrefix(c.DaemonHost(), "unix:") {
		return true, nil
	}
	self, err := os.Hostname()
	if err != nil {
		return true, nil
	}
	i, err := c.Info(ctx, client.InfoOptions{})
	rootless := func(option string) bool { return strings.Contains(option, "rootless") }
	return i.Info.Name != self || slices.ContainsFunc(i.Info.SecurityOptions, rootless), err
}

// choose is the name of the image that a server is started from.
func choose(ctx context.Context, c *client.Client, i containers.Image, o *containers.Options) (string, error) {
	if o.Image != "" {
		return o.Image, nil
	}
	built, err := has(ctx, c, Built)
	if built {
		return Built, nil
	}
	return i.Name, err
}

// guarded is the label of what is removed when this program ends.
func (d *Docker) guarded() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reaper == nil {
		r, err := startReaper()
		if err != nil {
			return "", err
		}
		d.reaper = r
	}
	return d.reaper.label, nil
}

// Close removes what was started with a guard and is still there. It is safe to
// call twice.
func (d *Docker) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.reaper
	d.reaper = nil
	if r == nil {
		return nil
	}
	return r.close()
}
