package main

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// progress tells on stderr what a run does: on a terminal one live line,
// elsewhere a plain line for each phase and each case.
type progress struct {
	w     io.Writer
	live  bool
	start time.Time

	mu      sync.Mutex
	running map[string]bool
	done    int
	worst   result.Status
}

func newProgress(d *deps) *progress {
	return &progress{w: d.err, live: isTerminal(d.err) && d.getenv("TERM") != "dumb", start: time.Now(), running: map[string]bool{}, worst: result.Pass}
}

// Phase implements contract.Progress.
func (p *progress) Phase(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		p.redraw(text)
		return
	}
	p.plain(text)
}

// Note implements contract.Progress.
func (p *progress) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.plain("note: " + text)
}

// Begin implements contract.Progress.
func (p *progress) Begin(c *contract.Case) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[c.ID] = true
	if p.live {
		p.redraw("")
	}
}

// End implements contract.Progress. A violation is told at once, on a line
// that stays.
func (p *progress) End(c *contract.Case, r *result.Case) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, c.ID)
	p.done++
	p.worst = result.Merge(p.worst, r.Status)
	told := fmt.Sprintf("%s %s: %s", r.ID, r.Name, r.Status)
	if r.Reason != "" {
		told += ": " + r.Reason
	}
	switch {
	case !p.live:
		p.plain(told)
	case r.Status == result.Fail || r.Status == result.Error:
		p.clear()
		p.plain(told)
	}
	if p.live {
		p.redraw("")
	}
}

// Done ends the live line.
func (p *progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) plain(text string) {
	fmt.Fprintf(p.w, "%6.1fs  %s\n", time.Since(p.start).Seconds(), text)
}

func (p *progress) clear() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *progress) redraw(text string) {
	if text == "" {
		var ids []string
		for id := range p.running {
			ids = append(ids, id)
		}
		sort.Strings(ids)
		text = fmt.Sprintf("%d done, worst %s; running %s", p.done, p.worst, strings.Join(ids, " "))
	}
	fmt.Fprintf(p.w, "\r\x1b[K%5.1fs  %.70s", time.Since(p.start).Seconds(), text)
}
