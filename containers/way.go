package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Via is a way of starting a server.
type Via string

// The ways of starting a server.
const (
	Auto   Via = "auto"   // a program of this machine, or else a container
	Local  Via = "local"  // a program of this machine
	Docked Via = "docker" // a container
)

// Vias lists the ways.
func Vias() []Via { return []Via{Auto, Local, Docked} }

// Docker starts servers in containers. Package docker has one; it is a module
// of its own, so that whoever starts programs only depends on nothing.
type Docker interface {
	// Reachable is nil if a daemon answers.
	Reachable(ctx context.Context) error
	// Start starts a server that is described by its image.
	Start(ctx context.Context, i Image, o *Options) (Server, error)
}

// Image is how a kind of server runs in a container.
type Image struct {
	Kind string // of server, for messages
	Name string // of the image; an image built on the spot is preferred to it
	// Port is where the server listens in a container that has a network of its
	// own.
	Port int
	// At is what runs in the container so that it listens there: a command, whose
	// first word is a program on the image's PATH, and the text of files that are
	// put in before, by their absolute path.
	At func(bind string, port int) (command []string, files map[string]string)
	// User is whom it runs as, where its program refuses to run as root; empty: as
	// the image says.
	User string
	// End is the signal that asks it to end in order; empty: SIGTERM.
	End string
	// Scratch is a folder that holds all that the server writes, and that every
	// end of it empties; "": what it writes stays until it is told to forget.
	Scratch string
	// Ready is nil once the server at the address serves.
	Ready func(ctx context.Context, addr string) error

	_ struct{}
}

// kind is one kind of server.
type kind struct {
	// local is the program of this machine; an error matches *MissingError if
	// there is none.
	local func() (program, error)
	image Image
}

// start starts a server the way that the options say.
func (k kind) start(ctx context.Context, o *Options) (Server, error) {
	if !slices.Contains(Vias(), o.Via) && o.Via != "" {
		return nil, fmt.Errorf("%w: via %q is none of %v", lockspec.ErrConfig, o.Via, Vias())
	}
	var missing *MissingError
	if o.Via != Docked {
		p, err := k.local()
		if err == nil {
			return startLocal(ctx, p, o)
		}
		if !errors.As(err, &missing) || o.Via == Local || o.Docker == nil {
			return nil, err
		}
	}
	if o.Docker == nil {
		return nil, fmt.Errorf("%w: this program starts no containers", lockspec.ErrConfig)
	}
	if err := o.Docker.Reachable(ctx); err != nil {
		if missing == nil {
			return nil, err
		}
		missing.Docker = err
		return nil, missing
	}
	return o.Docker.Start(ctx, k.image, o)
}

// MissingError says that no program for a kind of server is on this machine.
type MissingError struct {
	Programs []string // any of them would do
	Install  string   // the command that brings one
	Docker   error    // why it was no way either; nil: it was not asked
}

func (e *MissingError) Error() string {
	text := fmt.Sprintf("none of the programs %v is on PATH; install one: %s", e.Programs, e.Install)
	if e.Docker != nil {
		text += fmt.Sprintf("; or start it in Docker: %v", e.Docker)
	}
	return text
}

// Unwrap gives the reason that Docker is no way.
func (e *MissingError) Unwrap() error { return e.Docker }
