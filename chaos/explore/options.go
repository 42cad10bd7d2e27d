package explore

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
)

// Options say what is explored. The zero value, and nil, stand for the
// defaults.
type Options struct {
	Seed      uint64            // of the first schedule; the next have the next seeds
	Schedules int               // default 1,000
	Size      Size              // default 3 nodes, 3 tenures each, up to 3 faults
	Only      func(string) bool `json:"-"` // faults that it refuses are not used; default: all are
	Repeat    int               // every n-th schedule is played twice and must repeat itself (not under the race detector); default 100, -1: none
	Limit     time.Duration     // real time of one schedule, after which it is stuck; default 10 s

	buffer []history.Event // of the last schedule
	choice choice

	_ struct{}
}

func (o *Options) withDefaults() *Options {
	d := Options{}
	if o != nil && o.buffer != nil {
		return o // they are filled in
	}
	if o != nil {
		d = *o
	}
	d.buffer = make([]history.Event, 0, 512)
	if d.Schedules == 0 {
		d.Schedules = 1000
	}
	if d.Size.Nodes == 0 {
		d.Size = Size{3, 3, 3}
	}
	if d.Repeat == 0 {
		d.Repeat = 100
	}
	if d.Limit == 0 {
		d.Limit = 10 * time.Second
	}
	return &d
}

// Filled is the options with their defaults filled in. Schedules that are run
// with them share a buffer: what one showed is valid until the next.
func (o *Options) Filled() *Options { return o.withDefaults() }

// ErrStuck is a world in which nothing can happen any more, or time stands
// still.
var ErrStuck = errors.New("the world is stuck")

// stuck makes an error of synctest's panic about a deadlock, with the
// goroutines that wait.
func stuck(p any) error {
	return fmt.Errorf("%w: %v\n%s", ErrStuck, p, waiting(stacks(), whole))
}

func stack() []byte {
	buf := make([]byte, 64<<10)
	return buf[:runtime.Stack(buf, false)]
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}
