// Package containers starts the servers that a run needs, and lets nothing of
// them outlive it: no process, no container, no folder, no port. A server is a
// program of this machine, or a container that package docker starts, behind
// the same interface.
//
// It touches no server that it did not start.
package containers

import (
	"context"
	"io"
	"time"

	"github.com/lockcheck/lockcheck/lockspec/driver"
)

// Server is one server that this program started. Methods are safe for
// concurrent use; those that start and end it wait for each other.
type Server interface {
	// Addr is where it listens, host:port on this machine. It may be another
	// after a Start that followed an end.
	Addr() string
	// Peer is where another server that was started the same way reaches it: for
	// containers that is no address of this machine.
	Peer() string
	// About says what it is: a program and where that lies, or an image.
	About() string
	// Start starts what has ended, with the data that it left, and returns
	// once it serves.
	Start(ctx context.Context) error
	// Stop ends it in order, as an operator does: it may write what it knows.
	Stop(ctx context.Context) error
	// Kill ends it at once, as a crash does.
	Kill() error
	// Restart kills it and starts it again.
	Restart(ctx context.Context, data Data) error
	// Pause makes it stand still: connections stay, nobody is answered.
	Pause() error
	// Resume ends a pause.
	Resume() error
	// Log is the end of what it wrote.
	Log() string
	// Close ends it for good and removes what it left. It is safe to call twice.
	Close() error
}

// Data says what a restart finds of what was written before.
type Data bool

// What a restart finds.
const (
	Keep   Data = true  // whatever the server had put on disk
	Forget Data = false // an empty folder
)

// Options are what every kind of server takes.
type Options struct {
	// Guard is told of every process and folder, so that neither outlives this
	// program, however it ends. Nil: nobody is told.
	Guard *driver.Guard
	// Log gets all that the server writes; nil: only the end is kept, for Log.
	Log io.Writer
	// StartLimit bounds a start; default 10 s, in Docker 30 s. Pulling an image
	// does not count.
	StartLimit time.Duration
	// Via says which way a server is started; default Auto.
	Via Via
	// Docker starts containers; nil: no server is one.
	Docker Docker
	// Image is the image that a container is made of; default: that of the kind.
	Image string

	_ struct{}
}

const startLimit = 10 * time.Second
