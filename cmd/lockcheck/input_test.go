package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/reports/result"
)

// TestBadInput: each is one line that names what is wrong and the way out.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = `{"lockcheck":"history","version":1,"class":"lease"}` + "\n"
	broken := file("broken.jsonl", head+"{\"index\":0,\n"+`{"index":1,"time_ns":1,"type":"event","op":"note"}`+"\n")
	newer := file("newer.jsonl", `{"lockcheck":"history","version":99}`+"\n")
	empty := file("empty.jsonl", "")
	const (
		note0 = `{"index":0,"time_ns":5,"type":"event","op":"note"}` + "\n"
		note1 = `{"index":1,"time_ns":4,"type":"event","op":"note"}` + "\n"
	)
	schema := file("results.json", `{"schema":"lockcheck.results/9"}`)
	for _, test := range []struct {
		name string
		args []string
		says []string
	}{
		{"scheme", []string{"run", "memry://"}, []string{`"memry://"`, `"memory"`}},
		{"password", []string{"run", "memory://u:hunter2@127.0.0.1"}, []string{"u:***@127.0.0.1"}},
		{"password of a scheme that there is not", []string{"run", "redys://u:hunter2@h/"}, []string{"redys://u:***@h/"}},
		{"output that cannot be written", []string{"run", "--output", "json=" + dir + "/no/such/x"}, []string{"/no/such/x"}},
		{"scheme far off", []string{"run", "zookeeper://h"}, []string{`"zookeeper://h"`, "memory"}},
		{"address", []string{"run", "memory://nowhere"}, []string{"nowhere", "memory://HOST:PORT"}},
		{"option", []string{"run", "memory://?shard"}, []string{`"shard"`, `"shared"`}},
		{"option without its number", []string{"run", "memory://?permits"}, []string{"permits=K"}},
		{"options that do not go together", []string{"run", "memory://?shared&permits=2"}, []string{"neither"}},
		{"broken lock", []string{"run", "broken://release-without-owner"}, []string{`"release-without-owner"`, `"release-without-owner-check"`}},
		{"empty command", []string{"run", "exec:"}, []string{"exec:COMMAND"}},
		{"flag", []string{"run", "--sed", "1"}, []string{"--sed", `"seed"`}},
		{"flag value", []string{"run", "--seed", "one"}, []string{"--seed", "one"}},
		{"case", []string{"run", "--case", "A03x"}, []string{`"A03x"`, "A0"}},
		{"suite", []string{"run", "--suite", "contrat"}, []string{`"contrat"`, `"contract"`}},
		{"profile", []string{"run", "--profile", "fence"}, []string{`"fence"`, `"fenced"`}},
		{"lease", []string{"run", "--lease", "1ms"}, []string{"1ms", "100ms"}},
		{"output form", []string{"run", "--output", "html"}, []string{`"html"`, "FORMAT=PATH"}},
		{"output format", []string{"run", "--output", "jsn=x"}, []string{`"jsn"`, `"json"`}},
		{"two targets", []string{"run", "memory://", "memory://"}, []string{"2"}},
		{"command", []string{"rn"}, []string{`"rn"`, `"run"`}},
		{"list", []string{"list", "case"}, []string{`"case"`, `"cases"`}},
		{"list nothing", []string{"list"}, []string{"cases"}},
		{"broken line", []string{"check", broken}, []string{"line 2", "byte"}},
		{"newer history", []string{"check", newer}, []string{"99", "1"}},
		{"empty history", []string{"check", empty}, []string{"empty"}},
		{"no such file", []string{"check", filepath.Join(dir, "nothing.jsonl")}, []string{"nothing.jsonl"}},
		{"no file", []string{"check"}, []string{"arg"}},
		{"wrong count", []string{"check", file("count.jsonl", head+note0+endOf(2, head+note0))}, []string{"count.jsonl", "2", "1"}},
		{"wrong sum", []string{"check", file("sum.jsonl", head+note0+endOf(1, head))}, []string{"sha256"}},
		{"more after the end", []string{"check", file("more.jsonl", head+note0+endOf(1, head+note0)+note0)}, []string{"line 4", "end"}},
		{"byte order mark", []string{"check", "--format", "jsonl", file("bom.jsonl", "\ufeff"+head+endOf(0, "\ufeff"+head))}, []string{"line 1"}},
		{"unknown type", []string{"check", file("type.jsonl", head+`{"index":0,"time_ns":1,"type":"invok","op":"acquire"}`+"\n"+note0)}, []string{"line 2", "invok"}},
		{"unknown operation", []string{"check", file("op.jsonl", head+`{"index":0,"time_ns":1,"type":"event","op":"notes"}`+"\n"+note0)}, []string{"line 2", "notes"}},
		{"unknown error", []string{"check", file("word.jsonl", head+`{"index":0,"time_ns":1,"process":"p1","type":"invoke","op":"acquire","key":"k"}`+"\n"+
			`{"index":1,"time_ns":2,"process":"p1","type":"fail","op":"acquire","key":"k","error":"bussy"}`+"\n")}, []string{"line 3", "bussy"}},
		{"times that run backwards", []string{"check", file("back.jsonl", head+note0+note1)}, []string{"line 3", "backwards"}},
		{"no history", []string{"check", "--format", "jsonl", file("none.jsonl", "hello\n")}, []string{"none.jsonl"}},
		{"model", []string{"check", "--model", "mutx", empty}, []string{"mutx"}},
		{"format", []string{"check", "--format", "edm", empty}, []string{`"edm"`, `"edn"`}},
		{"class", []string{"run", "--class", "leese"}, []string{`"leese"`, `"lease"`}},
		{"bound", []string{"run", "--bound", "takover=2s"}, []string{`"takover"`, `"takeover"`}},
		{"bound form", []string{"run", "--bound", "takeover"}, []string{"NAME=VALUE"}},
		{"bound value", []string{"run", "--bound", "takeover=soon"}, []string{"takeover=soon", "duration"}},
		{"negative bound", []string{"run", "--bound", "loss=-2s"}, []string{"-2s"}},
		{"ratio", []string{"run", "--bound", "loss_ratio=much"}, []string{"loss_ratio=much"}},
		{"baseline", []string{"run", "--baseline", filepath.Join(dir, "none.json")}, []string{"none.json"}},
		{"baseline of another schema", []string{"run", "--baseline", schema}, []string{"lockcheck.results/9", result.Schema}},
		{"timeout", []string{"run", "--timeout", "-1s"}, []string{"--timeout"}},
		{"driver of what it cannot serve", []string{"driver", "embedded"}, []string{"memory://HOST:PORT", "embedded"}},
		{"driver of nothing", []string{"driver"}, []string{"arg"}},
		{"driver-check of nothing", []string{"driver-check", " "}, []string{"exec:COMMAND"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := (&cli{}).run(t, test.args...).want(t, result.ExitUsage)
			if lines := strings.Count(strings.TrimSpace(c.err), "\n"); lines != 0 {
				t.Errorf("%d lines instead of one:\n%s", lines+1, c.err)
			}
			if strings.Contains(c.err, "hunter2") {
				t.Errorf("it tells a password: %s", c.err)
			}
			for _, says := range test.says {
				if !strings.Contains(c.err, says) {
					t.Errorf("it does not say %s: %s", says, c.err)
				}
			}
		})
	}
}

// endOf is the end line of a history that says to have n events.
func endOf(n int, before string) string {
	return fmt.Sprintf(`{"lockcheck":"end","events":%d,"sha256":"%x"}`+"\n", n, sha256.Sum256([]byte(before)))
}

// TestAcceptedInput is what a reader must not refuse: blank lines, CR LF, an
// older or richer writer; a hazard above the class is told and ignored.
func TestAcceptedInput(t *testing.T) {
	const head = `{"lockcheck":"history","version":1,"class":"lease"}` + "\r\n\r\n"
	const held = `{"index":0,"time_ns":1,"process":"p1","type":"invoke","op":"acquire","key":"k","wait_ns":0}` + "\r\n\n" +
		`{"index":1,"time_ns":2,"process":"p1","type":"ok","op":"acquire","key":"k","tenure":"t1","lease_ns":1000000000,"mood":"good"}` + "\n"
	for _, test := range []struct {
		name, in string
		code     result.Exit
		says     string
	}{
		{"blank lines, CR LF and an unknown field", head + held + endOf(2, head+held), result.ExitOK, "mood"},
		{"nothing between header and end", head + endOf(0, head), result.ExitInconclusive, ""},
		{"a last line without its end", head + held + `{"lockcheck":"en`, result.ExitInconclusive, ""},
		{"a hazard above the class", strings.Replace(head+held, `"lease"}`, `"lease","hazards":["failover"]}`, 1) +
			endOf(2, strings.Replace(head+held, `"lease"}`, `"lease","hazards":["failover"]}`, 1)), result.ExitOK, "failover"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := (&cli{in: test.in}).run(t, "check", "-").want(t, test.code)
			if !strings.Contains(c.out+c.err, test.says) {
				t.Errorf("it does not say %q:\n%s%s", test.says, c.out, c.err)
			}
		})
	}
}

func TestEnvironmentTwins(t *testing.T) {
	c := &cli{env: map[string]string{"LOCKCHECK_SEED": "7", "LOCKCHECK_LEASE": "500ms"}}
	c.run(t, "run", "--plan").want(t, result.ExitOK)
	if !strings.Contains(c.out, `"seed": 7`) {
		t.Error(c.out)
	}
	if c.run(t, "run", "--plan", "--seed", "8").want(t, result.ExitOK); !strings.Contains(c.out, `"seed": 8`) {
		t.Error("a flag does not win over its twin")
	}
	c.env["LOCKCHECK_LEASE"] = "long"
	if c.run(t, "run", "--plan").want(t, result.ExitUsage); !strings.Contains(c.err, "LOCKCHECK_LEASE=long") {
		t.Error(c.err)
	}
}

// TestServerNotThere: a port that nobody listens on.
func TestServerNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	c := (&cli{}).run(t, "run", "memory://"+addr).want(t, result.ExitUnavailable)
	if !strings.Contains(c.err, addr) {
		t.Error(c.err)
	}
}

// TestCheckStandardInput judges a truncated history from standard input: what
// stands in it is judged, the verdict is no pass.
func TestCheckStandardInput(t *testing.T) {
	c := &cli{in: `{"lockcheck":"history","version":1,"class":"lease"}` + "\n" +
		`{"index":0,"time_ns":1,"process":"p1","type":"invoke","op":"acquire","key":"k","wait_ns":0}` + "\n" +
		`{"index":1,"time_ns":2,"process":"p1","type":"ok","op":"acquire","key":"k","tenure":"t1","lease_ns":1000000000}` + "\n"}
	c.run(t, "check", "-").want(t, result.ExitInconclusive)
	if !strings.Contains(c.out, "cut off") {
		t.Error(c.out)
	}
}

// TestNoCommonVersion: a driver answers so, and ends as wrongly used.
func TestNoCommonVersion(t *testing.T) {
	in, requests := io.Pipe()
	defer requests.Close()
	go fmt.Fprintln(requests, `{"id":1,"op":"hello","versions":[2,3]}`)
	var out, errs bytes.Buffer
	d := &deps{in: in, out: &out, err: &errs, getenv: func(string) string { return "" }, environ: func() []string { return nil }}
	if code := execute([]string{"driver", "memory://127.0.0.1:1"}, d); code != result.ExitUsage || !strings.Contains(out.String(), `"outcome":"unsupported"`) {
		t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
	}
}
