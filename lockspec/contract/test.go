package contract

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reports/result"
)

// The environment variables that Test heeds.
const (
	EnvSeed = "LOCKCHECK_SEED" // Options.Seed where that is 0
	EnvOut  = "LOCKCHECK_OUT"  // folder for the histories of cases that did not pass
)

// Test runs the contract against the lock of the harness, each case a subtest
// group/ID name, so that -run chooses among them. It is Check with the verdict
// told to the test:
//
//   - a case that fails, or ends in an error, or is inconclusive (see
//     Options.AllowInconclusive), fails its subtest;
//   - one that is unsupported, filtered out or skipped, skips it, with the
//     reason;
//   - a declared hazard that was shown is logged.
//
// What one case recorded is written as a history of its own where its subtest
// fails: into the test's ArtifactDir if the test runs with -artifacts, else the
// folder that LOCKCHECK_OUT names, else testdata/lockcheck. The path is logged;
// "lockcheck check PATH" judges it again.
//
// Cases run Options.Workers at a time, whatever -parallel says, and serial ones
// alone: Test must not be called from a parallel test.
func Test(t *testing.T, h Harness, opts *Options) {
	t.Helper()
	o, err := opts.withEnvironment(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCheck(h, o)
	if err != nil {
		t.Fatal(err)
	}
	c.chooseLease(t.Context())
	s := &suite{check: c, root: t, slots: make(chan struct{}, c.workers()), events: map[string][]history.Event{},
		results: make([]*result.Case, len(c.o.Cases))}
	c.judged = s.keep
	t.Logf("%s: seed %d, lease %s, suite %s", c.desc.Name, c.o.Seed, c.lease, Suite)
	if err := c.probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("claims", func(t *testing.T) {
		probes := c.report.Cases[0]
		t.Run(probes.ID+" "+probes.Name, func(t *testing.T) { s.tell(t, &Case{ID: probes.ID, Group: "claims", Name: probes.Name}, &probes) })
	})
	if err := c.begin(); err != nil {
		t.Fatal(err)
	}
	for _, group := range s.groups() {
		t.Run(group.name, func(t *testing.T) { s.runGroup(t, group.cases) })
	}
	s.finish(t)
}

// withEnvironment is a copy with what the environment says filled in.
func (o *Options) withEnvironment(getenv func(string) string) (*Options, error) {
	d := Options{}
	if o != nil {
		d = *o
	}
	text := getenv(EnvSeed)
	if d.Seed != 0 || text == "" {
		return &d, nil
	}
	seed, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seed == 0 {
		return nil, fmt.Errorf("%w: %s=%q is no seed; it is a whole number other than 0", lockspec.ErrConfig, EnvSeed, text)
	}
	d.Seed = seed
	return &d, nil
}

// suite is a run of Test.
type suite struct {
	check *check
	root  *testing.T

	alone   sync.RWMutex  // held for writing by a serial case
	slots   chan struct{} // one for each case that runs
	results []*result.Case

	mu     sync.Mutex
	events map[string][]history.Event // of cases that may have to be shown
}

// keep keeps what a case recorded, if somebody will want to see it.
func (s *suite) keep(r *result.Case, events []history.Event) {
	if r.Status == result.Pass || r.Status == result.Hazard {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[r.ID] = events
}

type group struct {
	name  string
	cases []int
}

// groups are the groups of the cases in the order of their first.
func (s *suite) groups() []group {
	var all []group
	for i := range s.check.o.Cases {
		name := cmp.Or(s.check.o.Cases[i].Group, s.check.o.Cases[i].suite())
		at := slices.IndexFunc(all, func(g group) bool { return g.name == name })
		if at < 0 {
			at, all = len(all), append(all, group{name: name})
		}
		all[at].cases = append(all[at].cases, i)
	}
	return all
}

// runGroup makes a subtest of each case. A case starts when its subtest was
// chosen, and its subtest waits for it beside the others.
func (s *suite) runGroup(t *testing.T, cases []int) {
	for _, i := range cases {
		k := &s.check.o.Cases[i]
		t.Run(k.ID+" "+k.Name, func(t *testing.T) {
			t.Attr("lockcheck.case", k.ID)
			t.Attr("lockcheck.seed", strconv.FormatInt(s.check.o.Seed, 10))
			t.Attr("lockcheck.suite", Suite)
			done := s.start(s.root.Context(), i)
			if !k.Serial {
				t.Parallel()
			}
			<-done
			s.tell(t, k, s.results[i])
		})
	}
}

func (s *suite) start(ctx context.Context, i int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		k := &s.check.o.Cases[i]
		if k.Serial {
			s.alone.Lock()
			defer s.alone.Unlock()
		} else {
			s.slots <- struct{}{}
			defer func() { <-s.slots }()
			s.alone.RLock()
			defer s.alone.RUnlock()
		}
		s.results[i] = s.check.runCase(ctx, k)
	}()
	return done
}

// tell gives the subtest of a case its outcome.
func (s *suite) tell(t *testing.T, k *Case, r *result.Case) {
	t.Helper()
	for _, line := range r.Story {
		t.Log(line)
	}
	switch r.Status {
	case result.Pass:
	case result.Hazard:
		for _, h := range r.Hazards {
			t.Logf("declared hazard %s was shown by %s and %s, and contained", h.Name, h.Pair[0], h.Pair[1])
		}
	case result.Unsupported, result.NotRun, result.Skipped:
		t.Skipf("%s: %s", r.Status, r.Reason)
	case result.Inconclusive:
		if s.check.o.AllowInconclusive {
			t.Logf("inconclusive: %s", r.Reason)
			return
		}
		s.fail(t, k, r)
	default:
		s.fail(t, k, r)
	}
}

// fail shows the findings, what was recorded, and how to see it again.
func (s *suite) fail(t *testing.T, k *Case, r *result.Case) {
	t.Helper()
	t.Errorf("%s: %s\n  why it matters: %s", r.Status, r.Reason, cmp.Or(k.Why, "every other verdict rests on it"))
	for _, f := range s.findings(r.ID) {
		t.Errorf("%s %s/%s: %s (events %v)", f.Certainty, f.Kind, f.Rule, f.Message, f.Events)
	}
	s.mu.Lock()
	events, recorded := s.events[r.ID]
	s.mu.Unlock()
	if recorded {
		path, err := s.write(t, r.ID, events)
		if err != nil {
			t.Errorf("its history could not be written: %v", err)
			return
		}
		t.Logf("history: %s", path)
	}
	t.Logf("again: %s=%d go test -run '%s'", EnvSeed, s.check.o.Seed, pattern(s.root.Name(), k))
}

func (s *suite) findings(id string) (found []result.Finding) {
	s.check.mu.Lock()
	defer s.check.mu.Unlock()
	for _, f := range s.check.report.Findings {
		if f.Case == id {
			found = append(found, f)
		}
	}
	return found
}

// pattern chooses one case.
func pattern(root string, k *Case) string {
	var parts []string
	for _, part := range strings.Split(root, "/") {
		parts = append(parts, "^"+part+"$")
	}
	return strings.Join(append(parts, "^"+k.Group+"$", "^"+k.ID+"_"), "/")
}

// write writes a history of the case alone and says where it is.
func (s *suite) write(t *testing.T, id string, events []history.Event) (path string, err error) {
	dir := artifactDir(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%s-%d.jsonl", strings.ReplaceAll(s.root.Name(), "/", "-"), id, s.check.o.Seed)
	if path, err = filepath.Abs(filepath.Join(dir, name)); err != nil {
		return "", err
	}
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return path, history.WriteAll(f, s.check.head, events)
}

// artifactDir is where the histories of a test go. ArtifactDir is newer than
// the oldest Go that this module works with; without -artifacts its folder is
// gone when the test ends.
func artifactDir(t *testing.T) string {
	a, can := any(t).(interface{ ArtifactDir() string })
	if f := flag.Lookup("test.artifacts"); can && f != nil && f.Value.String() == "true" {
		return a.ArtifactDir()
	}
	return cmp.Or(os.Getenv(EnvOut), filepath.Join("testdata", "lockcheck"))
}

// finish concludes the run. Where all of it ran, it must have brought evidence.
func (s *suite) finish(t *testing.T) {
	t.Helper()
	whole := true
	for i, r := range s.results {
		if r == nil {
			k := &s.check.o.Cases[i]
			s.results[i] = &result.Case{ID: k.ID, Suite: k.suite(), Name: k.Name, Status: result.NotRun, Reason: "filtered out"}
		}
		whole = whole && s.results[i].Reason != "filtered out"
	}
	if err := s.check.end(s.results); err != nil {
		t.Error(err)
	}
	s.check.conclude(t.Context())
	for _, note := range s.check.report.Notes {
		t.Log("note: " + note)
	}
	for _, lack := range s.check.report.Lacks {
		if whole && !s.check.o.AllowInconclusive {
			t.Error("inconclusive: " + lack)
		} else {
			t.Log("inconclusive: " + lack)
		}
	}
	if s.check.report.Partial {
		t.Log("partial: a claimed case was skipped")
	}
}
