package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/checker/importer"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// checking is what a check is asked to do.
type checking struct {
	d                    *deps
	path                 string
	out                  []output
	verbose, explain     bool
	model, format, key   string
	from, to, timeout    time.Duration
	lease, clock         time.Duration
	spans                importer.SpanNames
	until                time.Time // by the timeout; zero: none
	want                 checker.Model
	limited, outOfBudget bool
}

func newCheck(d *deps) *cobra.Command {
	c := &checking{d: d}
	var outputs []string
	cmd := &cobra.Command{
		Use:   "check FILE|FOLDER|-",
		Short: "Judge a recorded history again",
		Long: "Judge a recorded history, or a run folder, case by case. The target is not\ntouched. Of a folder, the verdict is compared with the recorded one. Files may be\npacked with gzip or zstd.\n\n" +
			"With --model, and for histories that others recorded, the operations on each\nkey are checked against that model alone, without causes and containment.\n\n" + exitHelp(),
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			out, err := parseOutputs(outputs)
			if err != nil {
				return err
			}
			c.path, c.out = args[0], out
			return c.run()
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&outputs, "output", nil, "FORMAT=PATH, - is standard output; formats: text, json (default: text=-)")
	f.BoolVarP(&c.verbose, "verbose", "v", false, "list every case")
	f.BoolVar(&c.explain, "explain", false, "print the order in which the operations can have taken effect, or the least that contradicts it")
	f.StringVar(&c.model, "model", "", fmt.Sprintf("one of %v", checker.Models()))
	f.StringVar(&c.format, "format", string(importer.Auto), fmt.Sprintf("one of %v", importer.Formats()))
	f.StringVar(&c.key, "key", "", "only this key; for operations without one, its name")
	f.DurationVar(&c.from, "from", 0, "only events from this time of the run on")
	f.DurationVar(&c.to, "to", 0, "only events before this time of the run")
	f.DurationVar(&c.timeout, "timeout", 0, "give up after this long: what was not read leaves the verdict inconclusive")
	f.DurationVar(&c.lease, "lease", 0, "what was granted, where an imported history does not say")
	f.DurationVar(&c.clock, "clock-error", 0, "by how much the clocks of an imported history may differ: widens every stamp")
	f.StringVar(&c.spans.Acquire, "span-acquire", "lock.acquire", "name of the spans of acquisitions (otlp)")
	f.StringVar(&c.spans.Hold, "span-hold", "lock.hold", "name of the spans of holds (otlp)")
	f.StringVar(&c.spans.Release, "span-release", "lock.release", "name of the spans of releases (otlp)")
	f.StringVar(&c.spans.Key, "attribute-key", "lock.key", "name of the attribute with the key (otlp)")
	f.StringVar(&c.spans.Owner, "attribute-owner", "lock.owner", "name of the attribute with the owner (otlp)")
	f.StringVar(&c.spans.Token, "attribute-token", "lock.token", "name of the attribute with the token (otlp)")
	return cmd
}

func (c *checking) run() error {
	if err := c.validate(); err != nil {
		return err
	}
	file := c.path
	var recorded *result.Report
	if info, err := os.Stat(c.path); err == nil && info.IsDir() {
		file = filepath.Join(c.path, "history.jsonl")
		if recorded, err = result.OpenFolder(c.path).ReadReport(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return exit(result.ExitUsage, "%w", err)
		}
	}
	src, stop, err := c.open(file)
	if err != nil {
		return exit(result.ExitUsage, "%s: %w", file, err)
	}
	defer stop()
	report, err := c.judge(src, recorded)
	if err != nil {
		return exit(result.ExitUsage, "%s: %w", file, err)
	}
	if report.Target == "" {
		report.Target = c.path
	}
	if err := write(c.d, c.out, report, c.verbose); err != nil {
		return exit(result.ExitInternal, "%w", err)
	}
	if report.Exit != result.ExitOK {
		return &exitError{code: report.Exit}
	}
	return nil
}

func (c *checking) validate() error {
	var err error
	if c.model != "" {
		if c.want, err = checker.ParseModel(c.model); err != nil {
			return exit(result.ExitUsage, "--model: %w", err)
		}
	}
	known := false
	for _, f := range importer.Formats() {
		known = known || f == c.format
	}
	switch {
	case !known:
		return exit(result.ExitUsage, "--format: unknown format %q; %s", c.format, nearest(c.format, importer.Formats()))
	case c.from < 0 || c.to < 0 || c.timeout < 0 || c.lease < 0 || c.clock < 0:
		return exit(result.ExitUsage, "--from, --to, --timeout, --lease and --clock-error must not be negative")
	case c.to != 0 && c.to <= c.from:
		return exit(result.ExitUsage, "--to %s is not after --from %s", c.to, c.from)
	}
	c.limited = c.from != 0 || c.to != 0
	if c.timeout > 0 {
		c.until = time.Now().Add(c.timeout)
	}
	return nil
}

// open opens a file, or standard input, and unpacks zstd.
func (c *checking) open(file string) (src *bufio.Reader, stop func(), err error) {
	in, closeIn := c.d.in, func() {}
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, err
		}
		in, closeIn = f, func() { f.Close() }
	}
	src, stopZstd, err := unpackZstd(bufio.NewReaderSize(in, 1<<16))
	if err != nil {
		closeIn()
		return nil, nil, err
	}
	return src, func() { stopZstd(); closeIn() }, nil
}

// judge reads and judges a history: ours as a run does, unless a model is
// asked for; all others against a model.
func (c *checking) judge(src *bufio.Reader, recorded *result.Report) (*result.Report, error) {
	format := importer.Format(c.format)
	if format == importer.Auto {
		head, err := src.Peek(512)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		format = importer.Sniff(head)
	}
	if format == importer.JSONL && (c.lease != 0 || c.clock != 0) {
		return nil, errors.New("--lease and --clock-error are for imported histories: ours says what was granted, and one clock stamped it")
	}
	if format == importer.JSONL && c.model != "" && !c.explain {
		return c.stream(src)
	}
	h, err := importer.Import(src, format, &importer.Options{Lease: c.lease, ClockError: c.clock, Key: c.keyName(), Spans: c.spans})
	if err != nil {
		return nil, err
	}
	c.warn(h.Warnings)
	h.Events = c.chosen(h.Events)
	if format == importer.JSONL && c.model == "" {
		report := contract.Rejudge(h, recorded)
		if c.explain {
			c.levels(h)
		}
		return c.finish(report), nil
	}
	s := checker.NewStream(&h.Header, c.want, &checker.StreamOptions{})
	for i := range h.Events {
		if c.tired(i) {
			break
		}
		s.Add(&h.Events[i])
	}
	sum := s.Close()
	if c.explain {
		c.explainSummary(h, sum)
	}
	return c.report(&h.Header, sum, h.Truncated), nil
}

// keyName is the key of operations that name none.
func (c *checking) keyName() string {
	if c.key != "" {
		return c.key
	}
	return "lock"
}

// stream checks a history of ours while it is read, without keeping it.
func (c *checking) stream(src io.Reader) (*result.Report, error) {
	r, err := history.NewReader(src)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := checker.NewStream(r.Header(), c.want, &checker.StreamOptions{Found: c.told()})
	var e history.Event
	for n := 0; !c.tired(n); n++ {
		if err := r.Next(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.Close()
			return nil, err
		}
		if c.wants(&e) {
			s.Add(&e)
		}
	}
	c.warn(r.Warnings())
	return c.report(r.Header(), s.Close(), r.Truncated()), nil
}

// told says the first violation at once: a long history may take a while.
func (c *checking) told() func(checker.Finding) {
	first := true
	return func(f checker.Finding) {
		if first && f.Certainty == checker.Certain {
			first = false
			fmt.Fprintf(c.d.err, "lockcheck: first violation: %s\n", f.Message)
		}
	}
}

// tired looks at the clock now and then.
func (c *checking) tired(n int) bool {
	if !c.outOfBudget && n%4096 == 4095 && !c.until.IsZero() && time.Now().After(c.until) {
		c.outOfBudget = true
	}
	return c.outOfBudget
}

func (c *checking) wants(e *history.Event) bool {
	return (c.key == "" || e.Key == "" || e.Key == c.key) && e.Time >= int64(c.from) && (c.to == 0 || e.Time < int64(c.to))
}

func (c *checking) chosen(events []history.Event) []history.Event {
	if c.key == "" && !c.limited {
		return events
	}
	var out []history.Event
	for i := range events {
		if c.wants(&events[i]) {
			out = append(out, events[i])
		}
	}
	return out
}

func (c *checking) warn(warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(c.d.err, "lockcheck: %s: warning: %s\n", c.path, w)
	}
}
