package lockcheck_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// consumer is a lock library that pins what it uses, years ago.
const consumerMod = `module example.com/consumer

go 1.25.0

require (
	github.com/jackc/pgx/v5 v5.5.0
	github.com/prometheus/client_golang v1.14.0
	github.com/redis/go-redis/v9 v9.2.0
	github.com/spf13/cobra v1.6.0
	github.com/testcontainers/testcontainers-go v0.25.0
	go.opentelemetry.io/otel v1.16.0
)
`

const consumerMain = `package main

import (
	_ "github.com/lockcheck/lockcheck/chaos"
	_ "github.com/lockcheck/lockcheck/checker"
	_ "github.com/lockcheck/lockcheck/lockspec/contract"
)

func main() {}
`

// TestConsumer: whoever imports the suite has none of his own dependencies
// moved, nor his go line.
func TestConsumer(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "go.mod", consumerMod)
	before := versions(t, dir)

	write(t, dir, "main.go", consumerMain)
	consumerGo(t, dir, "mod", "edit", "-require", module+"@v0.0.0", "-replace", module+"="+root)
	consumerGo(t, dir, "build", "-o", os.DevNull, ".")
	after := versions(t, dir)

	for m, v := range before {
		if after[m] != v {
			t.Errorf("%s moved from %s to %s", m, v, after[m])
		}
	}
	if mod := read(t, dir, "go.mod"); !strings.Contains(mod, "\ngo 1.25.0\n") || strings.Contains(mod, "toolchain") {
		t.Errorf("the go line moved:\n%s", mod)
	}
	if len(before) < 50 {
		t.Errorf("only %d modules were compared", len(before))
	}
}

// versions is the version of every module that the consumer's build knows.
func versions(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(consumerGo(t, dir, "list", "-m", "all")) {
		if f := strings.Fields(line); len(f) >= 2 && !strings.HasPrefix(f[0], module) {
			all[f[0]] = f[1]
		}
	}
	return all
}

func consumerGo(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
