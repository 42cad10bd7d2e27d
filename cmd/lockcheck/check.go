package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

func newCheck(d *deps) *cobra.Command {
	var outputs []string
	verbose := false
	cmd := &cobra.Command{
		Use:   "check FILE|FOLDER|-",
		Short: "Judge a recorded history again",
		Long:  "Judge a recorded history, or a run folder, case by case. The target is not\ntouched. Of a folder, the verdict is compared with the recorded one.\n\n" + exitHelp(),
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			out, err := parseOutputs(outputs)
			if err != nil {
				return err
			}
			return checkPath(d, args[0], out, verbose)
		},
	}
	cmd.Flags().StringArrayVar(&outputs, "output", nil, "FORMAT=PATH, - is standard output; formats: text, json (default: text=-)")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "list every case")
	return cmd
}

func checkPath(d *deps, path string, out []output, verbose bool) error {
	var recorded *result.Report
	file := path
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		file = filepath.Join(path, "history.jsonl")
		if recorded, err = result.OpenFolder(path).ReadReport(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return exit(result.ExitUsage, "%w", err)
		}
	}
	h, err := readHistory(d, file)
	if err != nil {
		return exit(result.ExitUsage, "%s: %w", file, err)
	}
	for _, w := range h.Warnings {
		fmt.Fprintf(d.err, "lockcheck: %s: warning: %s\n", file, w)
	}
	report := contract.Rejudge(h, recorded)
	if report.Target == "" {
		report.Target = path
	}
	if err := write(d, out, report, verbose); err != nil {
		return exit(result.ExitInternal, "%w", err)
	}
	if report.Exit != result.ExitOK {
		return &exitError{code: report.Exit}
	}
	return nil
}

func readHistory(d *deps, file string) (*history.History, error) {
	if file == "-" {
		return history.ReadAll(d.in)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return history.ReadAll(f)
}
