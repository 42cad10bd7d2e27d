// Command benchdoc measures the checker and writes docs/checker.md:
//
//	go run ./checker/internal/benchdoc > docs/checker.md
//
// A run takes some minutes; -long 100000000 adds one history of that length.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/checker/internal/load"
	"github.com/lockcheck/lockcheck/checker/porcupine"
	"github.com/lockcheck/lockcheck/lockspec"
)

func main() {
	largest := flag.Int("largest", 10_000_000, "events of the longest history")
	long := flag.Int("long", 0, "events of one more history, of 100 clients with unknowns; 0: none")
	limit := flag.Duration("limit", 20*time.Second, "for one search of porcupine")
	flag.Parse()
	if err := write(os.Stdout, *largest, *long, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "benchdoc:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, largest, long int, limit time.Duration) error {
	fmt.Fprintf(w, head, time.Now().UTC().Format("2006-01-02"), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), limit)
	for n := 1000; n <= largest; n *= 10 {
		for _, clients := range []int{5, 100} {
			for _, kind := range []string{"plain", "unknowns", "overlap", "unknowns, overlap"} {
				row(w, n, clients, kind, limit)
			}
		}
	}
	if long > 0 {
		row(w, long, 100, "unknowns", limit)
	}
	fmt.Fprint(w, fileHead)
	for n := 10_000; n <= min(largest, 1_000_000); n *= 10 {
		if err := fromFile(w, n); err != nil {
			return err
		}
	}
	fmt.Fprint(w, keysHead)
	for _, model := range []string{"lease", "fenced"} {
		fmt.Fprintf(w, "| %s | %d |\n", model, perKey(model))
	}
	return nil
}

const head = `# How fast the checker is

Made by ` + "`go run ./checker/internal/benchdoc > docs/checker.md`" + ` on %s with %s on %s, %d cores. Measured, not
computed; a machine that does other things at the same time shows in the wall clock, so the rate is of
processor time: events per second of one core.

The checks need no search: per key, each grant is compared with what surely holds, or placed as early as
it can be (see checker/certain.go and checker/chain.go for the proofs). That is folklore with a proof, not a
new theory. porcupine, a general linearizability checker, searched the same history in the same run, with a
limit of %s; it was not asked beyond 100,000 events. All histories are of one key, model mutex.

"plain" is a correct lock; with "unknowns", one acquisition in a hundred is never answered; with an
"overlap", one grant in the middle came too soon. Short histories were checked over and over.

| events | clients | history | verdict | wall | Mevents/s per core | heap | porcupine | its wall |
|---:|---:|---|---|---:|---:|---:|---|---:|
`

const fileHead = `
## From file to verdict

history.jsonl is read, its words, order, structure and sum are checked, and every event is judged. The
goroutine that reads also checks, unless there are more than two cores.

| events | file | wall | Mevents/s, wall | Mevents/s per core |
|---:|---:|---:|---:|---:|
`

const keysHead = `
## Memory

Nothing is kept of a key on which nothing is open, but its highest token where tokens are checked: bytes of
heap for each of a million keys that were used once.

| model | bytes a key |
|---|---:|
`

func options(clients int, kind string, n int) load.Options {
	o := load.Options{Clients: clients, Keys: 1, Unknown: strings.HasPrefix(kind, "unknowns")}
	if strings.HasSuffix(kind, "overlap") {
		o.Overlap = n / 2
	}
	return o
}

func row(w io.Writer, n, clients int, kind string, limit time.Duration) {
	var sum *checker.Summary
	var cost measured
	times := max(1, 1_000_000/n)
	for range times {
		sum = once(n, clients, kind, &cost)
	}
	theirs, took := search(n, clients, kind, limit)
	fmt.Fprintf(w, "| %s | %d | %s | %s | %s | %.1f | %.1f MB | %s | %s |\n", thousands(n), clients, kind, sum.Outcome, short(cost.wall/time.Duration(times)),
		float64(n*times)/cost.used.Seconds()/1e6, float64(cost.peak)/1e6, theirs, took)
}

// measured is what a check took, without the making of its history.
type measured struct {
	wall, used time.Duration
	peak       uint64
}

func once(n, clients int, kind string, cost *measured) *checker.Summary {
	l := load.New(options(clients, kind, n))
	batch := make([]history.Event, min(n, 10_000))
	base := uint64(0)
	if n >= 100_000 { // of less there is nothing to tell
		base = heap()
	}
	s := checker.NewStream(&history.Header{Class: lockspec.Memory}, checker.Model{Kind: checker.ModelMutex}, &checker.StreamOptions{Workers: 1})
	for done := 0; done < n; done += len(batch) {
		for i := range batch {
			l.Next(&batch[i])
		}
		start, used := time.Now(), processor()
		for i := range batch {
			s.Add(&batch[i])
		}
		cost.wall += time.Since(start)
		cost.used += processor() - used
		if base > 0 && done%1_000_000 == 0 {
			cost.peak = max(cost.peak, max(heap(), base)-base)
		}
	}
	return s.Close()
}

// search runs porcupine on the same history.
func search(n, clients int, kind string, limit time.Duration) (outcome, took string) {
	if n > 100_000 {
		return "–", "–"
	}
	l := load.New(options(clients, kind, n))
	events := make([]history.Event, n)
	for i := range events {
		l.Next(&events[i])
	}
	start := time.Now()
	got, err := porcupine.Check(events, checker.Model{Kind: checker.ModelMutex}, limit)
	if err != nil {
		return err.Error(), "–"
	}
	if got == checker.Inconclusive {
		return "unknown", short(time.Since(start))
	}
	return string(got), short(time.Since(start))
}

func fromFile(w io.Writer, n int) error {
	var file bytes.Buffer
	rec, err := history.NewRecorder(history.Header{Class: lockspec.Leased}, &history.Options{Out: &file})
	if err != nil {
		return err
	}
	l := load.New(load.Options{Clients: 5, Keys: 100})
	var e history.Event
	for range n {
		l.Next(&e)
		rec.Record(&e)
	}
	if err := rec.Close(); err != nil {
		return err
	}
	start, cost := time.Now(), processor()
	r, err := history.NewReader(bytes.NewReader(file.Bytes()))
	if err != nil {
		return err
	}
	s := checker.NewStream(r.Header(), checker.Model{Kind: checker.ModelLease}, nil)
	for {
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		s.Add(&e)
	}
	sum := s.Close()
	wall, used := time.Since(start), processor()-cost
	if sum.Outcome != checker.Pass || sum.Events != n {
		return fmt.Errorf("%d events: %s", sum.Events, sum.Outcome)
	}
	fmt.Fprintf(w, "| %s | %.1f MB | %s | %.2f | %.2f |\n", thousands(n), float64(file.Len())/1e6, short(wall), float64(n)/wall.Seconds()/1e6, float64(n)/used.Seconds()/1e6)
	return nil
}

func perKey(model string) int64 {
	m, err := checker.ParseModel(model)
	if err != nil {
		panic(err)
	}
	const keys = 1_000_000
	s := checker.NewStream(&history.Header{Class: lockspec.Leased}, m, &checker.StreamOptions{Workers: 1})
	l := load.New(load.Options{Clients: 5, Fresh: true})
	before := heap()
	var e history.Event
	for range 4 * keys {
		l.Next(&e)
		s.Add(&e)
	}
	after := heap()
	s.Close()
	return (int64(after) - int64(before)) / keys
}

// heap is what lives, to the byte.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
