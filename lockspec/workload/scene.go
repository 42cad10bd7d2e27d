package workload

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// Run gives names that are unique in one history.
type Run struct {
	Recorder *history.Recorder
	Gate     Gate // of the fenced register; nil: the right one

	processes, tenures, owners atomic.Int64
}

// Scene is where one case happens: its part of the history and its resource.
// It is safe for concurrent use.
type Scene struct {
	Case     string
	Resource *Resource

	run      *Run
	mu       sync.Mutex
	last     int64 // index of the event recorded last
	findings []checker.Finding
}

// NewScene starts the part of a history that belongs to a case.
func (r *Run) NewScene(id string) *Scene {
	s := &Scene{Case: id, run: r}
	s.Resource = newResource(s, r.Gate)
	return s
}

// Recorder is the recorder of the run.
func (s *Scene) Recorder() *history.Recorder { return s.run.Recorder }

// Record stamps and keeps an event of the case.
func (s *Scene) Record(e *history.Event) int64 {
	e.Case = s.Case
	index := s.run.Recorder.Record(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, index)
	return index
}

// Find notes a finding that the workload itself made: a wrong answer that no
// interval shows. Without events of its own it is given the one recorded last:
// the answer that was just looked at, or where the history stood.
func (s *Scene) Find(f checker.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(f.Events) == 0 {
		f.Events = []int64{s.last}
	}
	s.findings = append(s.findings, f)
}

// Findings are those noted so far.
func (s *Scene) Findings() []checker.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]checker.Finding(nil), s.findings...)
}

// NewProcess drives the client as one process on the node. The client is
// closed by Process.Close. The watch may be nil.
func (s *Scene) NewProcess(node string, c lockspec.Client, w Watch) *Process {
	p := &Process{Node: node, Owner: fmt.Sprintf("o%d", s.run.owners.Add(1)), scene: s, client: c, watch: w}
	p.rename()
	return p
}
