package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockcheck/lockcheck/containers/docker"
	"github.com/lockcheck/lockcheck/reports/result"
)

// serverRow is one kind of server that a run can start.
type serverRow struct {
	name     string
	programs []string // any of them will do
	folders  []string // patterns of where they are, if not on PATH
	image    bool     // the image that is built here has it
	fix      string   // the command that brings a program
}

func serverTable() []serverRow {
	return []serverRow{
		{"redis", []string{"redis-server", "valkey-server"}, nil, true, "apt-get install redis-server"},
		{"valkey", []string{"valkey-server"}, nil, true, "apt-get install valkey-server (Debian 13), or containers/images/build"},
		{"postgres", []string{"postgres"}, []string{"/usr/lib/postgresql/*/bin"}, true, "apt-get install postgresql"},
		{"pgbouncer", []string{"pgbouncer"}, []string{"/usr/sbin"}, false, "apt-get install pgbouncer"},
		{"azurite", []string{"azurite-blob", "azurite"}, nil, false, "npm install -g azurite@3"},
		{"etcd", []string{"etcd"}, nil, false, "apt-get install etcd-server"},
	}
}

// program is where one of the programs is; empty: nowhere.
func (s *serverRow) program() string {
	for _, name := range s.programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		for _, folder := range s.folders {
			if found, _ := filepath.Glob(filepath.Join(folder, name)); len(found) > 0 {
				return found[len(found)-1]
			}
		}
	}
	return ""
}

// finding is one line of what doctor says.
type finding struct {
	What  string `json:"what"`
	State state  `json:"state"`
	Found string `json:"found,omitempty"`
	Lacks string `json:"lacks,omitempty"` // what cannot be done
	Fix   string `json:"fix,omitempty"`
}

type state string

// The states of a finding.
const (
	fine    state = "ok"
	lacking state = "warn" // something works less well, or another way
	failing state = "fail" // something that a run can be asked for does not work
)

func newDoctor(d *deps) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{Use: "doctor", Short: "Tell what is there for runs and tests, what is missing, and the command that brings it",
		Long: "Tell what is there for runs and tests, what is missing, and the command that\n" +
			"brings it. A server that neither a program nor Docker can be is a failure, exit\n" +
			"code 69; a run with no target needs none of them.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if ctx == nil {
				ctx = context.Background()
			}
			all := examine(ctx, &docker.Docker{})
			if err := tellFindings(d, all, asJSON); err != nil {
				return exit(result.ExitInternal, "%w", err)
			}
			for _, f := range all {
				if f.State == failing {
					return &exitError{code: result.ExitUnavailable}
				}
			}
			return nil
		}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// daemonLimit bounds a question to the Docker daemon.
const daemonLimit = 5 * time.Second

// examine looks at everything.
func examine(ctx context.Context, boxes *docker.Docker) []finding {
	ctx, cancel := context.WithTimeout(ctx, daemonLimit)
	defer cancel()
	all := []finding{
		tool("go", "building lockcheck and running its tests", "https://go.dev/doc/install"),
		tool("gcc", "tests with the race detector", "apt-get install gcc libc6-dev"),
		tool("debootstrap", "building the image for Docker", "apt-get install debootstrap"),
	}
	daemon := finding{What: "docker", State: fine, Found: "a daemon answers"}
	image := finding{What: "image", State: fine, Found: docker.Built}
	there, err := boxes.Has(ctx, docker.Built)
	if err != nil {
		daemon = finding{What: "docker", State: lacking, Lacks: "--via docker", Fix: "apt-get install docker.io && service docker start"}
	}
	if !there {
		image = finding{What: "image", State: lacking, Lacks: "servers in Docker without a registry", Fix: "containers/images/build"}
	}
	all = append(all, daemon, image)
	for _, s := range serverTable() {
		all = append(all, s.examine(there))
	}
	return all
}

// tool looks for a program that helps.
func tool(name, lacks, fix string) finding {
	if path, err := exec.LookPath(name); err == nil {
		return finding{What: name, State: fine, Found: path}
	}
	return finding{What: name, State: lacking, Lacks: lacks, Fix: fix}
}

func (s *serverRow) examine(image bool) finding {
	if path := s.program(); path != "" {
		return finding{What: s.name, State: fine, Found: path}
	}
	if s.image && image {
		return finding{What: s.name, State: fine, Found: "in Docker, image " + docker.Built}
	}
	return finding{What: s.name, State: failing, Lacks: "runs on " + s.name, Fix: s.fix}
}

func tellFindings(d *deps, all []finding, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(d.out)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	}
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	for _, f := range all {
		if f.State == fine {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.State, f.What, f.Found)
		} else {
			fmt.Fprintf(w, "%s\t%s\tmissing for %s: %s\n", f.State, f.What, f.Lacks, f.Fix)
		}
	}
	return w.Flush()
}
