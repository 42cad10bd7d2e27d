package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// measured is a run of a backend.
type measured struct {
	backend backendRow
	report  *result.Report
}

// readMeasured finds out which backend each run folder is about, and sorts them
// as the table does.
func readMeasured(folders []string) ([]measured, error) {
	of := map[string]*result.Report{}
	for _, folder := range folders {
		r, err := result.OpenFolder(folder).ReadReport()
		if err != nil {
			return nil, exit(result.ExitUsage, "run folder %s: %w", folder, err)
		}
		b := backendOf(r.Target)
		switch {
		case b == "":
			return nil, exit(result.ExitUsage, "run folder %s: target %s is of no built-in lock; see lockcheck list backends", folder, r.Target)
		case of[b] != nil:
			return nil, exit(result.ExitUsage, "run folder %s: there are two runs of %s", folder, b)
		}
		of[b] = r
	}
	var all []measured
	for _, b := range backendTable() {
		if r := of[b.name]; r != nil {
			all = append(all, measured{b, r})
		}
	}
	return all, nil
}

// backendOf is the name of the first backend that a target may be of; empty:
// there is none.
func backendOf(target string) string {
	for _, b := range backendTable() {
		for _, form := range b.targets {
			if rest, ok := strings.CutPrefix(target, form); ok && (rest == "" || rest[0] == '?' || strings.HasSuffix(form, "/")) {
				return b.name
			}
		}
	}
	return ""
}

// backendsPage is docs/backends.md: what every built-in lock is, and what runs
// on real servers measured of it.
func backendsPage(w io.Writer, runs []measured) {
	fmt.Fprint(w, "# The backends\n\nMade by `make backends`, which runs every built-in lock on this machine: the figures are those of its runs.\n\n"+
		"| backend | class | targets | servers it needs | fencing | known hazards |\n|---|---|---|---|---|---|\n")
	for _, row := range backendRows() {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
	fmt.Fprint(w, "\n## Measured\n\n")
	pageHead(w, "", runs)
	pageRow(w, "target", runs, func(m measured) string { return m.report.Target })
	pageRow(w, "verdict", runs, func(m measured) string { return string(m.report.Verdict) })
	pageRow(w, "cases passed", runs, func(m measured) string { return fmt.Sprint(m.report.Summary["pass"]) })
	pageRow(w, "took", runs, func(m measured) string {
		return time.Duration(m.report.Duration).Round(100 * time.Millisecond).String()
	})
	pageRow(w, "longest stall of the machine", runs, func(m measured) string { return milliseconds(m.report.Environment.MaxStall) })
	pageRow(w, "day", runs, func(m measured) string { return m.report.Started.Format(time.DateOnly) })
	pageRow(w, "seed", runs, func(m measured) string { return fmt.Sprint(m.report.Seed) })
	for _, name := range boundsOf(runs) {
		pageRow(w, strings.ReplaceAll(strings.TrimSuffix(name, "_ns"), "_", " ")+", at most", runs, func(m measured) string {
			if v, ok := m.report.Bounds[name]; ok {
				return milliseconds(v)
			}
			return "-"
		})
	}
	fmt.Fprint(w, "\n## Cases\n\nWhat became of each, and how long it took. Their promises are in [cases.md](cases.md).\n\n")
	pageHead(w, "case", runs)
	for _, c := range append(contract.Cases(), chaos.Cases()...) {
		if c.Level != contract.APILevel {
			pageRow(w, c.ID, runs, func(m measured) string { return outcome(m.report, c.ID) })
		}
	}
}

// boundsOf are the names of all that the runs measured.
func boundsOf(runs []measured) []string {
	all := map[string]bool{}
	for _, m := range runs {
		for name := range m.report.Bounds {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func outcome(r *result.Report, id string) string {
	for i := range r.Cases {
		if c := &r.Cases[i]; c.ID == id {
			if c.Status == result.Unsupported || c.Status == result.NotRun {
				return string(c.Status)
			}
			return fmt.Sprintf("%s %.2fs", c.Status, time.Duration(c.Duration).Seconds())
		}
	}
	return "-"
}

func milliseconds(ns int64) string { return fmt.Sprintf("%.1f ms", float64(ns)/1e6) }

func pageHead(w io.Writer, first string, runs []measured) {
	pageRow(w, first, runs, func(m measured) string { return m.backend.name })
	fmt.Fprintf(w, "|---|%s\n", strings.Repeat("---|", len(runs)))
}

func pageRow(w io.Writer, first string, runs []measured, cell func(measured) string) {
	fmt.Fprintf(w, "| %s |", first)
	for _, m := range runs {
		fmt.Fprintf(w, " %s |", cell(m))
	}
	fmt.Fprintln(w)
}
