package contract

import (
	"context"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
)

// Harness brings clients of the lock under test. What else it can do are
// powers, found by type assertion; a case that needs one it lacks is
// unsupported, by name.
type Harness interface {
	// Open gives a new process on the node (n1, n2, …), with an owner of its
	// own. In one operating-system process all nodes may be the same.
	Open(ctx context.Context, node string) (lockspec.Client, error)
	// Describe says what the lock claims. It is asked before anything runs.
	Describe() lockspec.Description
}

// NodeHost is the power to run nodes as operating-system processes, which can
// be paused and killed.
type NodeHost interface {
	Node(ctx context.Context, name string) (*driver.Node, error)
}

// Observer is the power to see by itself what happens to nodes: stalls and
// unasked ends.
type Observer interface {
	// Observe records into the recorder from now on; nil ends it.
	Observe(*history.Recorder)
	// Settle returns once everything that happened to nodes before the call is
	// recorded.
	Settle(ctx context.Context)
	// Broken lists what drivers did wrong since it was last asked: rubbish on
	// standard output, hanging. It is no failure of the lock.
	Broken() []error
}
