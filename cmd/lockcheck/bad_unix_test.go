//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/reports/result"
)

// envBad makes the test binary a driver that misbehaves.
const envBad = "LOCKCHECK_TEST_BAD"

// badDriver serves like a good driver until its mode says otherwise.
func badDriver(mode string) {
	switch mode {
	case "dies-at-once":
		fmt.Fprintln(os.Stderr, "cannot open the frobnicator")
		os.Exit(3)
	case "rubbish-at-once":
		fmt.Println("Welcome to FrobLock 2.0!")
	case "hangs-at-once":
		time.Sleep(time.Minute)
	}
	os.Unsetenv(envBad)
	// The driver will point descriptor 1 at stderr: the real one is kept.
	fd, err := syscall.Dup(1)
	if err != nil {
		panic(err)
	}
	out := os.NewFile(uintptr(fd), "stdout")
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	os.Stdout = w
	in, requests, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	go misbehave(mode, bufio.NewReader(os.Stdin), requests, out)
	os.Stdin = in
	go func() { _, _ = io.Copy(out, r) }()
	serveIfAsked()
}

// spoiled is the node whose driver misbehaves in its first life, and after how
// many acquisitions it does: after the probes, in the middle of the cases.
const (
	spoiled = "n3"
	after   = 10
)

// misbehave passes requests on to the good driver, and spoils one.
func misbehave(mode string, in *bufio.Reader, requests io.WriteCloser, out io.Writer) {
	seen, spoil := 0, false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			requests.Close()
			return
		}
		spoil = spoil || strings.Contains(line, `"op":"hello"`) && strings.Contains(line, `"node":"`+spoiled+`","incarnation":1,`)
		if strings.Contains(line, `"op":"acquire"`) {
			seen++
		}
		if spoil && seen == after {
			switch mode {
			case "dies":
				os.Exit(7)
			case "rubbish":
				fmt.Fprintln(out, "DEBUG: entering acquire")
			case "hangs":
				time.Sleep(time.Hour)
			}
		}
		fmt.Fprint(requests, line)
	}
}

// TestBadDrivers: what a driver does wrong is told as the driver's, and the
// rest of the run goes on.
func TestBadDrivers(t *testing.T) {
	server := served(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		mode string
		code result.Exit
		says []string
	}{
		{"dies-at-once", result.ExitUnavailable, []string{"exit status 3"}},
		{"rubbish-at-once", result.ExitUnavailable, []string{"Welcome to FrobLock 2.0!"}},
		{"hangs-at-once", result.ExitUnavailable, []string{"10s"}},
		{"dies", result.ExitViolation, []string{"process-died"}},
		{"rubbish", result.ExitUnavailable, []string{"DEBUG: entering acquire"}},
		{"hangs", result.ExitUnavailable, []string{"does not answer a ping"}},
	} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			c := &cli{}
			c.run(t, "run", "exec:env "+envBad+"="+test.mode+" "+self, "--endpoint", server, "--suite", "contract", "--seed", "1", "--lease", "1s").want(t, test.code)
			for _, says := range test.says {
				if !strings.Contains(c.out+c.err, says) {
					t.Errorf("it does not say %q:\n%s%s", says, c.out, c.err)
				}
			}
			if strings.HasSuffix(test.mode, "-at-once") {
				return
			}
			good := 0
			for _, k := range c.report(t).Cases {
				if k.Status == result.Pass {
					good++
				}
			}
			if good == 0 {
				t.Errorf("no case passed: the rest did not go on\n%s", c.out)
			}
			if _, err := os.Stat(filepath.Join(c.dir, "latest", "history.jsonl")); err != nil {
				t.Error(err)
			}
		})
	}
}

// served starts an embedded server for the length of a test.
func served(t *testing.T) string {
	t.Helper()
	s, err := startServer(t.Context(), nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s.addr
}
