package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference/broken"
	"github.com/lockcheck/lockcheck/reports/result"
)

// listing is one table: a header and its rows.
type listing struct {
	what, means string
	header      []string
	rows        func() [][]string
	page        func(w io.Writer, runs []measured) // of the documentation; nil: there is none
	measured    bool                               // the page is made from run folders
}

func listings() []listing {
	return []listing{
		{"cases", "every case of the contract", []string{"ID", "GROUP", "LEVEL", "NEEDS", "NAME"}, func() [][]string { return caseRows(contract.Cases()) }, func(w io.Writer, _ []measured) { casesPage(w) }, false},
		{"scenarios", "every case of the chaos suite", []string{"ID", "GROUP", "LEVEL", "NEEDS", "NAME"}, func() [][]string { return caseRows(chaos.Cases()) }, nil, false},
		{"faults", "every fault", []string{"NAME", "HAZARD", "STRIKES", "MEANS"}, faultRows, nil, false},
		{"targets", "every form of a target", []string{"FORM", "MEANS"}, targetRows, nil, false},
		{"backends", "every built-in lock", []string{"NAME", "CLASS", "TARGETS", "SERVERS", "FENCING", "HAZARDS"}, backendRows, backendsPage, true},
		{"broken", "every deliberately broken lock", []string{"NAME", "CAUGHT", "WRONG"}, brokenRows, nil, false},
	}
}

func caseRows(cases []contract.Case) [][]string {
	var rows [][]string
	for _, c := range cases {
		needs := "-"
		if len(c.Needs) > 0 {
			needs = fmt.Sprint(c.Needs)
		}
		rows = append(rows, []string{c.ID, c.Group, string(c.Level), needs, c.Name})
	}
	return rows
}

func faultRows() [][]string {
	var rows [][]string
	for _, f := range chaos.Faults() {
		hazard := string(f.Hazard)
		if hazard == "" {
			hazard = "-"
		}
		rows = append(rows, []string{f.Name, hazard, f.Strikes, f.Means})
	}
	return rows
}

func targetRows() [][]string {
	var rows [][]string
	for _, s := range schemes() {
		rows = append(rows, []string{s.form, s.means})
	}
	return rows
}

func brokenRows() [][]string {
	var rows [][]string
	for _, l := range broken.Locks() {
		var cases []string
		for _, f := range l.Caught {
			cases = append(cases, f.Case)
		}
		rows = append(rows, []string{l.Name, strings.Join(cases, ","), l.Means})
	}
	return rows
}

func newList(d *deps) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List what there is",
		Args: func(_ *cobra.Command, args []string) error {
			var names []string
			for _, l := range listings() {
				names = append(names, l.what)
			}
			if len(args) == 0 {
				return exit(result.ExitUsage, "list what? It is one of %v", names)
			}
			return exit(result.ExitUsage, "unknown list %q; %s", args[0], nearest(args[0], names))
		},
		RunE: func(*cobra.Command, []string) error { return nil }}
	for _, l := range listings() {
		cmd.AddCommand(newListing(d, l))
	}
	return cmd
}

func newListing(d *deps, l listing) *cobra.Command {
	asJSON, asPage := false, false
	use, args := l.what, cobra.NoArgs
	if l.measured {
		use, args = l.what+" [--markdown RUN…]", cobra.ArbitraryArgs
	}
	cmd := &cobra.Command{Use: use, Short: "List " + l.means, Args: args, RunE: func(_ *cobra.Command, folders []string) error {
		if asPage {
			runs, err := readMeasured(folders)
			if err == nil {
				l.page(d.out, runs)
			}
			return err
		}
		if len(folders) > 0 {
			return exit(result.ExitUsage, "list %s %s: run folders are for --markdown", l.what, folders[0])
		}
		if asJSON {
			return printJSON(d, l)
		}
		w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
		for _, row := range append([][]string{l.header}, l.rows()...) {
			for i, cell := range row {
				if i > 0 {
					fmt.Fprint(w, "\t")
				}
				fmt.Fprint(w, cell)
			}
			fmt.Fprintln(w)
		}
		return w.Flush()
	}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	if l.page != nil {
		cmd.Flags().BoolVar(&asPage, "markdown", false, "as the page docs/"+l.what+".md")
		cmd.MarkFlagsMutuallyExclusive("json", "markdown")
	}
	return cmd
}

func printJSON(d *deps, l listing) error {
	objects := []map[string]string{}
	for _, row := range l.rows() {
		o := map[string]string{}
		for i, name := range l.header {
			o[strings.ToLower(name)] = row[i]
		}
		objects = append(objects, o)
	}
	enc := json.NewEncoder(d.out)
	enc.SetIndent("", "  ")
	return enc.Encode(objects)
}
