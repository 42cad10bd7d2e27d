package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/reports/result"
)

const (
	failedRelease = `[{:type :invoke, :f :acquire, :process 0, :time 1000}
{:type :ok, :f :acquire, :process 0, :time 2000}
{:type :invoke, :f :release, :process 0, :time 3000}
{:type :fail, :f :release, :process 0, :time 4000, :error :not-held}
{:type :invoke, :f :acquire, :process 1, :time 5000}
{:type :ok, :f :acquire, :process 1, :time 6000}]`

	overlapping = `{"lockcheck":"history","version":1,"class":"lease","bounds":{},"eps_ns":0}
{"index":0,"time_ns":1000000,"process":"p1","type":"invoke","op":"acquire","key":"a"}
{"index":1,"time_ns":2000000,"process":"p1","type":"ok","op":"acquire","key":"a","tenure":"t1","lease_ns":9000000000}
{"index":2,"time_ns":3000000,"process":"p2","type":"invoke","op":"acquire","key":"a"}
{"index":3,"time_ns":4000000,"process":"p2","type":"ok","op":"acquire","key":"a","tenure":"t2","lease_ns":9000000000}
{"index":4,"time_ns":5000000,"process":"p3","type":"invoke","op":"acquire","key":"b"}
{"index":5,"time_ns":6000000,"process":"p3","type":"ok","op":"acquire","key":"b","tenure":"t3","lease_ns":9000000000}
`
)

func TestCheckModels(t *testing.T) {
	rows := []struct {
		name, src string
		args      []string
		want      result.Exit
		says      string // on either stream
	}{
		{"a failed release of a mutex", failedRelease, []string{"--model", "mutex"}, result.ExitViolation, "surely held"},
		{"of an owner's lock", failedRelease, []string{"--model", "owner"}, result.ExitOK, ""},
		{"the order that explains it", failedRelease, []string{"--model", "owner", "--explain"}, result.ExitOK, "t1 released"},
		{"what contradicts every order", failedRelease, []string{"--model", "mutex", "--explain"}, result.ExitViolation, "no order of these 2"},
		{"a lease that the file does not give", failedRelease, []string{"--model", "lease", "--lease", "1ms"}, result.ExitOK, ""},
		{"ours, as a model", overlapping, []string{"--model", "lease"}, result.ExitViolation, "first violation"},
		{"only another key", overlapping, []string{"--model", "lease", "--key", "b"}, result.ExitInconclusive, "no end line"},
		{"only before it happened", overlapping, []string{"--model", "lease", "--to", "4ms"}, result.ExitInconclusive, "were looked at"},
		{"the levels", overlapping, []string{"--explain"}, result.ExitViolation, "nothing that a client does"},
		{"an unknown model", overlapping, []string{"--model", "lock"}, result.ExitUsage, "unknown model"},
		{"an unknown format", overlapping, []string{"--format", "jsonlines"}, result.ExitUsage, "jsonl"},
		{"the wrong format", overlapping, []string{"--format", "edn"}, result.ExitUsage, "line 1"},
		{"a clock error of ours", overlapping, []string{"--clock-error", "5ms"}, result.ExitUsage, "imported"},
		{"a window that is none", overlapping, []string{"--from", "2s", "--to", "1s"}, result.ExitUsage, "not after"},
		{"two open operations", `{:type :invoke :f :lock :process 0}{:type :invoke :f :lock :process 0}`, nil, result.ExitUsage, "line 1, byte 35"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var out, talk bytes.Buffer
			d := defaultDeps()
			d.in, d.out, d.err = strings.NewReader(row.src), &out, &talk
			if got := execute(append([]string{"check", "-"}, row.args...), d); got != row.want {
				t.Errorf("exit %d, want %d\n%s%s", got, row.want, &out, &talk)
			}
			if both := out.String() + talk.String(); !strings.Contains(both, row.says) {
				t.Errorf("does not say %q:\n%s", row.says, both)
			}
		})
	}
}

// TestCheckJSON: data on stdout, whatever else is said.
func TestCheckJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.edn")
	if err := os.WriteFile(path, []byte(failedRelease), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	d := defaultDeps()
	d.out, d.err = &out, &talk
	execute([]string{"check", path, "--model", "mutex", "--explain", "--output", "json=-"}, d)
	var r result.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Verdict != result.Fail || len(r.Findings) != 1 {
		t.Errorf("%v: %s", err, &out)
	}
}
