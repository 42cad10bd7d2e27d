package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reports/result"
)

// toolVersion is the version that this binary was built at.
func toolVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

type versions struct {
	Tool    string `json:"lockcheck"`
	Suite   string `json:"suite"`
	Checker string `json:"checker"`
	Schema  string `json:"results"`
	History int    `json:"history"`
	Driver  int    `json:"driver"`
	Go      string `json:"go"`
	OS      string `json:"os"`
}

func theVersions() versions {
	return versions{toolVersion(), contract.Suite, checker.Version, result.Schema, history.FormatVersion, driver.Version,
		runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// versionLine is what version and --version print.
func versionLine() string {
	v := theVersions()
	return fmt.Sprintf("lockcheck %s, suite %s, checker %s, history %d, driver protocol %d, %s %s\n",
		v.Tool, v.Suite, v.Checker, v.History, v.Driver, v.Go, v.OS)
}

func newVersion(d *deps) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{Use: "version", Short: "Print the versions of the tool, its suite and its formats", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(d.out).Encode(theVersions())
			}
			_, err := fmt.Fprint(d.out, versionLine())
			return err
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}
