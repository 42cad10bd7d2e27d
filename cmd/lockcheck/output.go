package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/lockcheck/lockcheck/reports"
	"github.com/lockcheck/lockcheck/reports/result"
)

// output is one report that the user asked for.
type output struct{ format, path string }

var formats = []string{"text", "json"}

func parseOutputs(args []string) ([]output, error) {
	if len(args) == 0 {
		args = []string{"text=-"}
	}
	var out []output
	for _, a := range args {
		format, path, found := strings.Cut(a, "=")
		if !found || path == "" {
			return nil, exit(result.ExitUsage, "--output %q: the form is FORMAT=PATH, - is standard output", a)
		}
		known := false
		for _, f := range formats {
			known = known || f == format
		}
		if !known {
			return nil, exit(result.ExitUsage, "--output %q: unknown format %q; %s", a, format, nearest(format, formats))
		}
		if path != "-" {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				return nil, exit(result.ExitUsage, "--output %q: %w", a, err)
			}
			f.Close()
		}
		out = append(out, output{format, path})
	}
	return out, nil
}

// write writes every report.
func write(d *deps, outputs []output, r *result.Report, verbose bool) error {
	for _, o := range outputs {
		if err := o.write(d, r, verbose); err != nil {
			return err
		}
	}
	return nil
}

func (o output) write(d *deps, r *result.Report, verbose bool) error {
	w := d.out
	if o.path != "-" {
		f, err := os.Create(o.path)
		if err != nil {
			return err
		}
		defer f.Close()
		w = f
	}
	if o.format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return reports.Text(w, r, &reports.TextOptions{Color: o.path == "-" && colorful(w, d.getenv), Verbose: verbose})
}

// colorful says whether to colour: on a terminal, unless the user or the
// terminal says no.
func colorful(w io.Writer, getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
