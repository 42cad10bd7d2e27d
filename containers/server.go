// Package containers starts the servers that a run needs, and lets nothing of
// them outlive it: no process, no folder, no port. Today a server is a program
// of this machine; a second way is to be Docker, behind the same interface.
//
// It touches no server that it did not start.
package containers

import (
	"context"
	"fmt"
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
	// StartLimit bounds a start; default 10 s.
	StartLimit time.Duration

	_ struct{}
}

const startLimit = 10 * time.Second

// MissingError says that no program for a kind of server is on this machine.
type MissingError struct {
	Programs []string // any of them would do
	Install  string   // the command that brings one
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("none of the programs %v is on PATH; install one: %s", e.Programs, e.Install)
}
