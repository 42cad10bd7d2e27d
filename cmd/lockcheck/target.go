package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/azureblob"
	"github.com/lockcheck/lockcheck/reference/backends/redlock"
	"github.com/lockcheck/lockcheck/reference/broken"
	"github.com/lockcheck/lockcheck/reference/memory"
	"github.com/lockcheck/lockcheck/reports/result"
)

// target is what a run tests, as the command line names it.
type target struct {
	text    string // as it was given, for the report
	url     string // of the service; of an embedded server, completed when it runs
	inside  bool   // inside this process, no nodes
	offers  offers // of a lock inside this process
	command []string
	prepare prepare // finds or starts the service; nil: a driver knows it by itself
}

// schemeRow is one line of the table of target schemes.
type schemeRow struct {
	form  string
	means string
	parse func(rest string) (target, error)
}

const embeddedName = "embedded"

// schemes is the table of target schemes.
func schemes() []schemeRow {
	rows := []schemeRow{
		{embeddedName, "the memory backend behind a loopback port, in a child process; the default", func(string) (target, error) {
			return target{text: embeddedName, prepare: embeddedService}, nil
		}},
		{"memory://", "the memory backend inside this process; contract only; with readers, permits or an owner that acquires again: " + offersForm, memoryTarget},
		{"memory://HOST:PORT", "a served memory backend", nil},
		{"broken://NAME", "a deliberately broken lock, see list broken", brokenTarget},
		{"exec:COMMAND", "a driver program, one process for each node", execTarget},
	}
	return slices.Concat(rows, redisForms(), postgresForms(), azblobForms(), upForms())
}

// secret is the password of a URL, wherever it stands in a text. It goes on to
// the last @, for one that was not escaped may hold others.
var secret = regexp.MustCompile(`(://[^:/@\s]*):\S*@`)

// signature is what is secret about a SAS of Azure's.
var signature = regexp.MustCompile(`([?&]sig=)[^&\s]*`)

// redact hides passwords: what is told of a target is told to anybody.
func redact(text string) string {
	return signature.ReplaceAllString(secret.ReplaceAllString(text, "$1:***@"), "$1***")
}

func parseTarget(text string) (target, error) {
	if text == "" {
		text = embeddedName
	}
	scheme, rest, found := strings.Cut(text, ":")
	if !found && text == embeddedName {
		return schemes()[0].parse("")
	}
	var known []string
	for _, s := range schemes() {
		name, _, _ := strings.Cut(s.form, ":")
		if found && name == scheme && s.parse != nil {
			t, err := s.parse(strings.TrimPrefix(rest, "//"))
			t.text = redact(text)
			return t, err
		}
		known = append(known, name)
	}
	return target{}, exit(result.ExitUsage, "unknown target %q; %s (see lockcheck list targets)", redact(text), nearest(scheme, unique(known)))
}

func unique(words []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, w := range words {
		if !seen[w] {
			out = append(out, w)
		}
		seen[w] = true
	}
	return out
}

func memoryTarget(rest string) (target, error) {
	if rest == "" {
		return target{inside: true}, nil
	}
	if query, ok := strings.CutPrefix(rest, "?"); ok {
		o, err := parseOffers(query)
		return target{inside: true, offers: o}, err
	}
	host, port, err := net.SplitHostPort(rest)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || strings.Contains(host, "@") {
		return target{}, exit(result.ExitUsage, "%s: the form is memory://HOST:PORT", redact("memory://"+rest))
	}
	return target{url: "memory://" + rest, prepare: reachService}, nil
}

func brokenTarget(name string) (target, error) {
	if _, err := broken.Find(name); err != nil {
		var names []string
		for _, l := range broken.Locks() {
			names = append(names, l.Name)
		}
		return target{}, exit(result.ExitUsage, "%w; %s", err, nearest(name, names))
	}
	return target{url: "broken://" + name, prepare: embeddedService}, nil
}

func execTarget(command string) (target, error) {
	if strings.TrimSpace(command) == "" {
		return target{}, exit(result.ExitUsage, "exec: names no command; the form is exec:COMMAND")
	}
	return target{command: shell(command)}, nil
}

// shell runs a command line as the user would type it.
func shell(command string) []string {
	if runtime.GOOS == "windows" {
		return []string{"cmd", "/c", command}
	}
	return []string{"sh", "-c", "exec " + command}
}

// at completes the URL with the address of the embedded server and the lease
// that will be asked for.
func (t *target) at(addr string, lease time.Duration) {
	q := url.Values{"lease": {lease.String()}}
	if t.url == "" {
		t.url = "memory://" + addr
	} else {
		q.Set("at", addr)
	}
	t.url += "?" + q.Encode()
}

// lock is one node's way to a built-in target: an engine that its processes
// share, each acquisition with an owner of its own.
// Its clock can be put wrong, wall clock and rate.
type lock struct {
	engine *reference.Engine
	clock  *fakeclock.View
	wrong  broken.Lock // the zero value is right

	mu     sync.Mutex
	offset time.Duration
}

func (l *lock) Describe() lockspec.Description {
	d := l.engine.Client().(lockspec.Describer).Describe()
	d.Features = append(d.Features, lockspec.ClockSkew)
	return d
}

// SetClock implements driver.ClockSetter.
func (l *lock) SetClock(offset time.Duration, rate float64) error {
	if !(rate > 0) {
		return fmt.Errorf("%w: a clock of rate %v", lockspec.ErrConfig, rate)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock.Shift(offset - l.offset)
	l.clock.SetRate(rate)
	l.offset = offset
	return nil
}

func (l *lock) Close() error { return l.engine.Close() }
func (l *lock) Client(string) (lockspec.Client, error) {
	return shared{l.wrong.Handle(l.engine.Client())}, nil
}

// shared is a client of an engine that others use too.
type shared struct{ lockspec.Client }

func (shared) Close() error { return nil }

// openLock opens the lock that a driver of this program is told to serve.
func openLock(_ context.Context, at driver.Target) (driver.Lock, error) {
	if strings.HasPrefix(at.URL, redlock.Scheme) { // which names more hosts than a URL has
		return openRedlock(at.URL)
	}
	u, err := url.Parse(at.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", lockspec.ErrConfig, err)
	}
	if at.URL == "" && len(at.Endpoints) > 0 {
		u = &url.URL{Scheme: "memory", Host: at.Endpoints[0]}
	}
	switch u.Scheme {
	case "memory":
		return newLock(u, memory.Dial(u.Host, nil), broken.Lock{})
	case "redis", "rediss":
		return openRedis(u)
	case azureblob.Scheme:
		return openAzblob(u)
	case "postgres", "postgresql":
		return openPostgres(at.URL)
	case "broken":
		b, err := broken.Find(u.Host)
		if err != nil {
			return nil, err
		}
		return newLock(u, memory.Dial(u.Query().Get("at"), nil), b)
	}
	return nil, fmt.Errorf("%w: this driver serves no %q", lockspec.ErrConfig, at.URL)
}

// newLock makes an engine over a way to a service. Of a lease that the URL names
// it can promise which outages it survives.
func newLock(u *url.URL, b reference.Backend, wrong broken.Lock) (driver.Lock, error) {
	clock := fakeclock.NewView(fakeclock.Real())
	o := reference.Options{Clock: clock}
	if text := u.Query().Get("lease"); text != "" {
		var err error
		if o.Lease, err = time.ParseDuration(text); err != nil {
			return nil, fmt.Errorf("%w: lease: %w", lockspec.ErrConfig, err)
		}
	}
	e, err := reference.New(wrong.Wrap(b), &o)
	if err != nil {
		return nil, err
	}
	return &lock{engine: e, clock: clock, wrong: wrong}, nil
}
