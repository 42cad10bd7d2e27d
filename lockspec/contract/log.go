package contract

import (
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
)

// eventLog sorts the events of a run by the case they belong to. Events of no
// case (stalls, ends of nodes) belong to every case.
type eventLog struct {
	mu     sync.Mutex
	shared []history.Event
	byCase map[string][]history.Event
}

// clear forgets everything: what the probes recorded has other indices and
// another time than what the cases record.
func (l *eventLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared, l.byCase = nil, nil
}

func (l *eventLog) open(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byCase == nil {
		l.byCase = map[string][]history.Event{}
	}
	l.byCase[id] = []history.Event{}
}

// add is called by the recorder with each batch, in order.
func (l *eventLog) add(batch []history.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range batch {
		if id := batch[i].Case; id == "" {
			l.shared = append(l.shared, batch[i])
		} else if _, open := l.byCase[id]; open {
			l.byCase[id] = append(l.byCase[id], batch[i])
		}
	}
}

// nodesStalled is how long nodes stood still since then, together.
func (l *eventLog) nodesStalled(since int64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum time.Duration
	for i := range l.shared {
		e := &l.shared[i]
		if e.Op == history.Fault && e.Phase == history.Observed && e.To > since && !contains(e.Targets, checker.Controller) {
			sum += time.Duration(e.To - max(e.From, since))
		}
	}
	return sum
}

// close gives the events of the case and forgets them.
func (l *eventLog) close(id string) []history.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := merge(l.byCase[id], l.shared)
	delete(l.byCase, id)
	return events
}

// merge puts two lists, each in the order of its indices, into one.
func merge(a, b []history.Event) []history.Event {
	out := make([]history.Event, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].Index < b[0].Index {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// Split sorts a whole history into the parts of its cases, as a run judges
// them, in the order in which the cases began.
func Split(events []history.Event) (ids []string, parts map[string][]history.Event) {
	l := &eventLog{}
	for i := range events {
		if id := events[i].Case; id != "" && !contains(ids, id) {
			ids = append(ids, id)
			l.open(id)
		}
	}
	l.add(events)
	parts = map[string][]history.Event{}
	for _, id := range ids {
		parts[id] = l.close(id)
	}
	if len(ids) == 0 {
		ids = []string{""}
		parts[""] = events
	}
	return ids, parts
}

func contains(ids []string, id string) bool {
	for _, have := range ids {
		if have == id {
			return true
		}
	}
	return false
}
