package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/reports/result"
)

// TestDoctor: on a machine that has nothing, and no daemon, every line says
// what is missing for what, and how to get it; a program that appears is found.
func TestDoctor(t *testing.T) {
	if os.Getenv("LOCKCHECK_TEST_DOCTOR") == "" { // testcontainers-go remembers where a daemon was
		aloneWith(t, "LOCKCHECK_TEST_DOCTOR=1")
		return
	}
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(bin, "docker.sock"))
	c := (&cli{}).run(t, "doctor").want(t, result.ExitUnavailable)
	for _, says := range []string{
		"fail  redis ", "apt-get install redis-server", "fail  valkey ", "containers/images/build",
		"warn  docker ", "service docker start", "warn  gcc ", "race detector", "fail  etcd ", "fail  azurite ", "npm install",
	} {
		if !strings.Contains(c.out, says) {
			t.Errorf("it does not say %q:\n%s", says, c.out)
		}
	}
	for _, s := range serverTable() {
		must(t, os.WriteFile(filepath.Join(bin, s.programs[0]), []byte("#!/bin/sh\n"), 0o755))
	}
	c.run(t, "doctor", "--json").want(t, result.ExitOK)
	var all []finding
	must(t, json.Unmarshal([]byte(c.out), &all))
	for _, f := range all {
		if wrong := f.State == failing || f.State != fine && (f.Fix == "" || f.Lacks == ""); wrong {
			t.Errorf("%+v", f)
		}
	}
	if len(all) != 5+len(serverTable()) {
		t.Errorf("%d lines", len(all))
	}
}

// TestBackends: every row is what its lock says, names servers that doctor
// looks for and targets that there are.
func TestBackends(t *testing.T) {
	known := map[string]bool{}
	for _, s := range serverTable() {
		known[s.name] = true
	}
	table := backendTable()
	for _, b := range table {
		if d, err := b.describe(); err != nil || d.Validate() != nil {
			t.Errorf("%s: %v, %v", b.name, err, d.Validate())
		}
		for _, s := range b.servers {
			if !known[s] {
				t.Errorf("%s needs %s, for which doctor does not look", b.name, s)
			}
		}
		for _, form := range b.targets {
			found := false
			for _, s := range schemes() {
				found = found || strings.HasPrefix(s.form, form)
			}
			if !found {
				t.Errorf("%s: there is no target %s", b.name, form)
			}
		}
	}
	c := (&cli{}).run(t, "list", "backends").want(t, result.ExitOK)
	for _, says := range []string{"redlock replicated-lease", "redis lease", "postgres session", "azureblob lease", " pause "} {
		if !strings.Contains(strings.Join(strings.Fields(c.out), " "), says) {
			t.Errorf("it does not say %q:\n%s", says, c.out)
		}
	}
	if lines := strings.Count(c.out, "\n"); lines != len(table)+1 {
		t.Errorf("%d lines for %d backends", lines, len(table))
	}
}
