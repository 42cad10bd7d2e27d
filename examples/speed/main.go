// Command speed compares what acquiring and releasing a free key costs: by the
// reference engine without fencing, by the bare commands, by redsync and by
// redislock, on one Redis that it starts itself.
//
//	GOWORK=off go run .
//
// It is a module of its own, so that the libraries it compares with are nobody
// else's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/lockcheck/lockcheck/containers"
)

// lease is longer than any round, so nothing is renewed while it is measured.
const lease = time.Minute

// contender is one way of locking: cycle acquires a key and releases it.
type contender struct {
	name  string
	cycle func(ctx context.Context, key string) error
	close func() error
}

func main() {
	rounds := flag.Int("rounds", 9, "rounds of each contender; the median counts")
	length := flag.Duration("length", 500*time.Millisecond, "of a round")
	flag.Parse()
	if err := compare(context.Background(), *rounds, *length); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, rounds int, length time.Duration) (err error) {
	s, err := containers.Redis(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	all, err := contenders(s.Addr())
	if err != nil {
		return err
	}
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.close())
		}
	}()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "clients\tof\tmedian\tleast\tmost\tto bare\t\n")
	for _, clients := range []int{1, 16} {
		took, err := measure(ctx, all, clients, rounds, length)
		if err != nil {
			return err
		}
		bare := median(took[0])
		for i, c := range all {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%.2f\t\n", clients, c.name, micros(median(took[i])),
				micros(slices.Min(took[i])), micros(slices.Max(took[i])), float64(median(took[i]))/float64(bare))
		}
	}
	return w.Flush()
}

// measure is how long a cycle took, of each contender in each round. The
// contenders take turns, so that what else the machine does meets all of them.
func measure(ctx context.Context, all []contender, clients, rounds int, length time.Duration) ([][]time.Duration, error) {
	took := make([][]time.Duration, len(all))
	for round := range rounds + 1 {
		for i := range all {
			i = (i + round) % len(all)
			d, err := run(ctx, all[i], clients, length)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[i].name, err)
			}
			if round > 0 { // the first opens connections
				took[i] = append(took[i], d)
			}
		}
	}
	return took, nil
}

// run is how long a cycle of one client took, with all of them at it, each on a
// key of its own.
func run(ctx context.Context, c contender, clients int, length time.Duration) (time.Duration, error) {
	var cycles atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, clients)
	begin := time.Now()
	for n := range clients {
		all.Go(func() {
			key := "key-" + strconv.Itoa(n)
			for time.Since(begin) < length {
				if errs[n] = c.cycle(ctx, key); errs[n] != nil {
					return
				}
				cycles.Add(1)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return time.Since(begin) * time.Duration(clients) / time.Duration(cycles.Load()), nil
}

func median(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

func micros(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/1e3) }
