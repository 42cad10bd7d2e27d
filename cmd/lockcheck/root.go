package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
	"github.com/lockcheck/lockcheck/reports/result"
)

// deps are what the command line touches, so that a test can stand in for it.
type deps struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	environ  func() []string
	signals  func(context.Context) (ctx context.Context, hard context.Context, stop func())
	gate     workload.Gate // of the fenced register; nil: the right one
}

func defaultDeps() *deps {
	return &deps{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, environ: os.Environ, signals: notify}
}

// exitError ends the command line with a code and, where there is one, a
// message on stderr.
type exitError struct {
	code result.Exit
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exit(code result.Exit, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

// execute runs the command line and returns what it ends with.
func execute(args []string, d *deps) result.Exit {
	root := newRoot(d)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return result.ExitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		// Everything that is not ours comes from cobra: a wrong flag or argument.
		e = &exitError{result.ExitUsage, err}
		if errors.Is(err, lockspec.ErrUnavailable) {
			e.code = result.ExitUnavailable
		}
	}
	if e.err != nil {
		fmt.Fprintf(d.err, "lockcheck: %s\n", strings.TrimSpace(e.err.Error()))
	}
	return e.code
}

func newRoot(d *deps) *cobra.Command {
	root := &cobra.Command{
		Use:           "lockcheck",
		Short:         "Tells whether a distributed lock keeps its promises",
		Long:          "lockcheck tells whether a distributed lock keeps its promises, and proves it\nwith a history that anyone can check again.\n\n" + exitHelp(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          func(cmd *cobra.Command, args []string) error { return unknownCommand(cmd, args) },
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(d.in)
	root.SetOut(d.out)
	root.SetErr(d.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit(result.ExitUsage, "%w%s", err, nearestFlag(cmd, err))
	})
	root.Version = toolVersion()
	root.SetVersionTemplate(versionLine())
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { warnUnknown(cmd.Root(), d) }
	root.AddCommand(newRun(d), newExplore(d), newCheck(d), newList(d), newDoctor(d), newVersion(d), newDriver(d), newServe(d), newDriverCheck(d))
	return root
}

func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return exit(result.ExitUsage, "unknown command %q; %s", args[0], nearest(args[0], names))
}

// exitHelp is the table of exit codes for the help text.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes; where several apply, the first stands:\n")
	for _, row := range result.Exits() {
		fmt.Fprintf(&b, "  %3d  %s\n", row.Code, row.Means)
	}
	return b.String()
}
