package driver

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Standing is what became of a rule.
type Standing string

// The standings of a rule.
const (
	RuleKept     Standing = "kept"
	RuleBroken   Standing = "broken"
	RuleNotTried Standing = "not tried"
)

// Fault is one way in which a driver broke a rule.
type Fault struct {
	Line string `json:"line,omitempty"` // that the driver wrote, or was asked
	What string `json:"what"`
	Do   string `json:"do"` // what its author can do about it
}

// Trial is what was found about one rule of the protocol.
type Trial struct {
	Rule     string   `json:"rule"` // its letter; "hello" is what a driver says of itself
	Says     string   `json:"says"`
	How      string   `json:"how"` // it is tried
	Standing Standing `json:"standing"`
	Faults   []Fault  `json:"faults,omitempty"`
	Gaps     []string `json:"not_tried,omitempty"` // parts of the rule that could not be tried, and why
}

// Conformance is what was found about a driver.
type Conformance struct {
	Name     string         `json:"name"`
	Class    lockspec.Class `json:"class"`
	Features []string       `json:"features"`
	Trials   []Trial        `json:"rules"`
}

// Kept says whether no rule was broken.
func (c *Conformance) Kept() bool {
	return !slices.ContainsFunc(c.Trials, func(t Trial) bool { return t.Standing == RuleBroken })
}

// ConformOptions say how a driver is tried.
type ConformOptions struct {
	Lease   time.Duration // to ask for; 0: 1 s, within what the driver accepts
	Workers int           // trials at a time, each with drivers of its own; 0: as many as there are cores, 2 to 4

	_ struct{}
}

// Conform starts the driver again and again and tries every rule of the
// protocol on it, also with what a [Node] never sends. It says nothing about
// the lock. Of config, the name and the callbacks are not used.
//
// The error, a *Broken, says that the driver cannot be started or does not
// answer hello. Ending ctx leaves what was not tried yet as such.
func Conform(ctx context.Context, config Config, opts *ConformOptions) (*Conformance, error) {
	o := ConformOptions{}
	if opts != nil {
		o = *opts
	}
	if o.Workers == 0 {
		o.Workers = min(max(runtime.NumCPU(), 2), 4)
	}
	command, err := orSelf(config.Command)
	if err != nil {
		return nil, &Broken{Node: "n1", What: "no command: " + err.Error(), Err: err}
	}
	config.Command = command
	c := &conformance{config: config, found: map[string]*Trial{}, prefix: "lockcheck-" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "/"}
	for _, r := range rules() {
		c.found[r.letter] = &Trial{Rule: r.letter, Says: r.says, How: r.how, Standing: RuleNotTried}
	}
	if err := c.introduce(ctx); err != nil {
		return nil, err
	}
	c.chooseLease(o.Lease)
	c.tryAll(ctx, o.Workers)
	return c.result(), nil
}

// conformance is one check under way.
type conformance struct {
	config Config
	prefix string // of keys
	hello  Reply  // the driver's first
	says   lockspec.Description
	lease  time.Duration // of what is to run out
	calm   time.Duration // of what is not

	mu    sync.Mutex
	found map[string]*Trial
	said  map[string]int // faults of a kind, so that one is told once
}

// introduce starts the driver once, to learn what it claims.
func (c *conformance) introduce(ctx context.Context) error {
	var err error
	c.attempt(ctx, "hello", func(a *attempt) {
		var w *wire
		if w, err = a.start("n1"); err != nil {
			return
		}
		k := w.hello(Version)
		got := w.await(k, helloDefault)
		switch {
		case got == nil:
			err = w.mute()
		case got.Outcome != lockspec.OK:
			err = &Broken{Node: "n1", What: "it refused hello: " + w.last()}
		default:
			c.hello = *got
			a.introduction(w, k, got)
		}
	})
	if err == nil && c.hello.Outcome != lockspec.OK {
		err = ctx.Err()
	}
	return err
}

func (c *conformance) chooseLease(asked time.Duration) {
	within := func(lease time.Duration) time.Duration {
		if most := c.says.Bounds.LeaseMax; most > 0 {
			lease = min(lease, most)
		}
		return max(lease, c.says.Bounds.LeaseMin)
	}
	if asked == 0 {
		asked = time.Second
	}
	c.lease, c.calm = within(asked), within(10*asked)
}

func (c *conformance) claims(f lockspec.Feature) bool { return c.says.Claims(f) }

// tryAll makes every attempt, some at a time.
func (c *conformance) tryAll(ctx context.Context, workers int) {
	slots := make(chan struct{}, workers)
	var all sync.WaitGroup
	for _, r := range rules() {
		for _, try := range r.tries {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				c.attempt(ctx, r.letter, try)
			})
		}
	}
	all.Wait()
}

// attempt makes one attempt in a goroutine of its own, so that it can end
// anywhere.
func (c *conformance) attempt(ctx context.Context, letter string, try func(*attempt)) {
	a := &attempt{conformance: c, ctx: ctx, rule: letter}
	if ctx.Err() != nil {
		a.gap("interrupted")
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.endAll()
		try(a)
	}()
	<-done
}

// attempt is one attempt to find a rule broken. Its methods that begin with
// must end it.
type attempt struct {
	*conformance
	ctx   context.Context
	rule  string
	key   int
	wires []*wire
}

func (a *attempt) stop() { runtime.Goexit() }

// newKey is a key that nobody else uses.
func (a *attempt) newKey() string {
	a.key++
	return fmt.Sprintf("%sdriver-check/%s/%p/%d", a.prefix, a.rule, a, a.key)
}

// tried notes that something of the rule was tried.
func (a *attempt) tried() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.found[a.rule]; t.Standing == RuleNotTried {
		t.Standing = RuleKept
	}
}

// gap notes what of the rule cannot be tried.
func (a *attempt) gap(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, why := a.found[a.rule], fmt.Sprintf(format, args...)
	if !slices.Contains(t.Gaps, why) {
		t.Gaps = append(t.Gaps, why)
	}
}

// thrice gives a driver that a busy machine may have stalled another chance:
// only what goes wrong each time is wrong. once is told how often it was called
// before, and returns what is wrong, nil for nothing.
func (a *attempt) thrice(once func(n int) (fault func())) {
	for n := range 3 {
		fault := once(n)
		if fault == nil {
			return
		}
		if n == 2 {
			fault()
		}
	}
}

func (a *attempt) mustClaim(f lockspec.Feature, what string) {
	if !a.claims(f) {
		a.gap("%s: %s is not claimed", what, f)
		a.stop()
	}
}

// broken notes a fault against the rule of the attempt.
func (a *attempt) broken(line, do, format string, args ...any) {
	a.conformance.broken(a.rule, line, do, format, args...)
}

// broken notes a fault. Of one kind only the first is told: a driver that does
// something wrong does it each time.
func (c *conformance) broken(letter, line, do, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.found[letter]
	t.Standing = RuleBroken
	if c.said == nil {
		c.said = map[string]int{}
	}
	if c.said[letter+format]++; c.said[letter+format] == 1 {
		t.Faults = append(t.Faults, Fault{Line: clip([]byte(line)), What: fmt.Sprintf(format, args...), Do: do})
	}
}

func (c *conformance) result() *Conformance {
	r := &Conformance{Name: c.hello.Name, Class: c.says.Class, Features: c.hello.Features}
	for _, rule := range rules() {
		r.Trials = append(r.Trials, *c.found[rule.letter])
	}
	return r
}

// mute says why hello was not answered.
func (w *wire) mute() error {
	err := fmt.Errorf("no reply to hello within %v; is each line flushed?", helloDefault)
	select {
	case <-w.process.exited:
		err = errors.New("it ended before it answered hello: " + w.process.cmd.ProcessState.String())
	default:
	}
	what := err.Error()
	if line := w.last(); line != "" {
		what += fmt.Sprintf("; it wrote %q instead", clip([]byte(line)))
	}
	if log := w.process.stderr.String(); log != "" {
		what += "; its stderr ends: " + log
	}
	return &Broken{Node: "n1", What: what, Err: err}
}
