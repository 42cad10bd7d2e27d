package explore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Job is a range of schedules for a process of its own.
type Job struct {
	Target string
	Options
}

// EnvJob makes a program a worker.
const EnvJob = "LOCKCHECK_EXPLORE"

// batch is how many schedules a worker plays between two reports.
const batch = 250

// Main makes the program a worker if its environment says so, and does not
// return then. It is one of the first lines of a main: testing takes over the
// process. A bubble needs a *testing.T, and that needs testing.Main.
func Main(find func(target string) (*Harness, error)) {
	text := os.Getenv(EnvJob)
	if text == "" {
		return
	}
	out := os.Stdout
	os.Stdout = os.Stderr // testing has words of its own
	os.Args = os.Args[:1]
	testing.Main(func(_, _ string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "Explore", F: func(t *testing.T) { work(t, text, find, out) }}}, nil, nil)
}

func work(t *testing.T, text string, find func(string) (*Harness, error), out io.Writer) {
	var j Job
	say := func(r *Report) { _ = json.NewEncoder(out).Encode(r) }
	err := json.Unmarshal([]byte(text), &j)
	var h *Harness
	if err == nil {
		h, err = find(j.Target)
	}
	if err != nil {
		say(&Report{Stuck: err.Error()})
		return
	}
	for left := j.Schedules; left > 0; left -= batch {
		j.Schedules = min(left, batch)
		before := cpu()
		r := explore(t, h, &j.Options, func(dump string) {
			say(&Report{Stuck: dump})
			os.Exit(1)
		})
		r.CPU = cpu() - before
		say(r)
		if r.Stuck != "" {
			return
		}
		j.Seed += uint64(j.Schedules)
	}
}

// Spawn explores in so many processes of this program at a time, each on one
// processor, and calls tell with the sum so far whenever one of them reports.
// The program must call Main first.
func Spawn(ctx context.Context, j Job, processes int, tell func(*Report)) (*Report, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	total := &Report{}
	began := time.Now()
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	share := (j.Schedules + processes - 1) / processes
	for n := range processes {
		part := j
		part.Seed += uint64(n * share)
		part.Schedules = min(share, j.Schedules-n*share)
		if part.Schedules <= 0 {
			break
		}
		all.Go(func() {
			err := part.run(ctx, self, func(r *Report) {
				mu.Lock()
				defer mu.Unlock()
				total.Merge(r)
				total.Took = time.Since(began)
				tell(total)
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil && failed == nil {
				failed = err
			}
		})
	}
	all.Wait()
	return total, failed
}

// run is one worker process from its start to its end.
func (j Job) run(ctx context.Context, self string, tell func(*Report)) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self)
	// What is preempted goes on in another order.
	cmd.Env = append(os.Environ(), EnvJob+"="+string(text), "GODEBUG=asyncpreemptoff=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	played := 0
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		r := new(Report)
		if json.Unmarshal(lines.Bytes(), r) != nil {
			continue
		}
		played += r.Schedules
		tell(r)
		if r.Stuck != "" {
			played = j.Schedules
		}
	}
	err = cmd.Wait()
	if played < j.Schedules {
		return fmt.Errorf("a worker ended after %d of %d schedules from seed %d: %v\n%s", played, j.Schedules, j.Seed, err, tail(said.Bytes()))
	}
	return nil
}

func tail(b []byte) []byte { return b[max(0, len(b)-4000):] }
