package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reports/result"
)

// TestColor: the user's NO_COLOR wins, and what is no terminal gets none.
func TestColor(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	if colorful(null, env()) || colorful(&bytes.Buffer{}, env()) {
		t.Error("a file is no terminal")
	}
	tty := terminal(t)
	for _, test := range []struct {
		env  func(string) string
		want bool
	}{
		{env(), true}, {env("NO_COLOR", "1"), false}, {env("TERM", "dumb"), false}, {env("NO_COLOR", ""), true},
	} {
		if got := colorful(tty, test.env); got != test.want {
			t.Errorf("colour %v, want %v", got, test.want)
		}
	}
}

// TestLiveLine: on a terminal one line is redrawn, and a failure stays.
func TestLiveLine(t *testing.T) {
	var b bytes.Buffer
	p := &progress{w: &b, live: true, running: map[string]bool{}, worst: result.Pass}
	k := contract.Case{ID: "A01", Name: "a case"}
	p.Begin(&k)
	p.End(&k, &result.Case{ID: k.ID, Name: k.Name, Status: result.Fail, Reason: "two holders"})
	p.Done()
	if got := b.String(); !strings.Contains(got, "\r\x1b[K") || !strings.Contains(got, "two holders\n") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("%q", got)
	}
	b.Reset()
	p = &progress{w: &b, running: map[string]bool{}, worst: result.Pass}
	p.Phase("probing")
	p.Begin(&k)
	p.End(&k, &result.Case{ID: k.ID, Name: k.Name, Status: result.Pass})
	p.Done()
	if got := b.String(); strings.ContainsAny(got, "\r\x1b") || strings.Count(got, "\n") != 2 {
		t.Errorf("%q", got)
	}
}

func TestVersion(t *testing.T) {
	c := (&cli{}).run(t, "version").want(t, result.ExitOK)
	if !strings.HasPrefix(c.out, "lockcheck ") {
		t.Error(c.out)
	}
	line := c.out
	if c.run(t, "--version").want(t, result.ExitOK); c.out != line {
		t.Errorf("--version says %q, version %q", c.out, line)
	}
	if c.run(t, "version", "--json").want(t, result.ExitOK); !strings.Contains(c.out, `"suite":"1"`) {
		t.Error(c.out)
	}
}

func TestLists(t *testing.T) {
	for what, says := range map[string]string{"cases": "A10", "scenarios": "X02", "faults": "pause", "targets": "embedded", "broken": "release-without-owner-check"} {
		c := (&cli{}).run(t, "list", what).want(t, result.ExitOK)
		if !strings.Contains(c.out, says) {
			t.Errorf("list %s: %s", what, c.out)
		}
		if c.run(t, "list", what, "--json").want(t, result.ExitOK); !strings.HasPrefix(c.out, "[") {
			t.Error(c.out)
		}
	}
}
