package containers

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// startAzurite starts one, or skips where there is none.
func startAzurite(t *testing.T, o *AzuriteOptions) *local {
	t.Helper()
	s, err := Azurite(t.Context(), o)
	var missing *MissingError
	if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*local)
}

// tell makes one request about a container, signed with an account's key
// (https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key),
// and gives the status; 0: there was no answer.
func tell(t *testing.T, addr, method, container, key string) int {
	t.Helper()
	date, version := time.Now().UTC().Format(http.TimeFormat), "2021-10-04"
	text := method + strings.Repeat("\n", 12) + "x-ms-date:" + date + "\nx-ms-version:" + version +
		"\n/" + AzuriteAccount + "/" + AzuriteAccount + "/" + container + "\nrestype:container"
	raw, err := base64.StdEncoding.DecodeString(key)
	must(t, err)
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(text))
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+"/"+AzuriteAccount+"/"+container+"?restype=container", nil)
	must(t, err)
	r.Header.Set("x-ms-date", date)
	r.Header.Set("x-ms-version", version)
	r.Header.Set("Authorization", "SharedKey "+AzuriteAccount+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	c := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	reply, err := c.Do(r)
	if err != nil {
		return 0
	}
	reply.Body.Close()
	return reply.StatusCode
}

func TestAzuriteRestart(t *testing.T) {
	s := startAzurite(t, &AzuriteOptions{Persist: true})
	for _, test := range []struct {
		what string
		end  func() error
		want int
	}{
		{"an end in order", func() error { return errors.Join(s.Stop(t.Context()), s.Start(t.Context())) }, http.StatusOK},
		{"a crash after that", func() error { return s.Restart(t.Context(), Keep) }, http.StatusOK},
		{"a crash that loses its disk", func() error { return s.Restart(t.Context(), Forget) }, http.StatusNotFound},
	} {
		tell(t, s.Addr(), http.MethodPut, "kept", AzuriteKey)
		must(t, test.end())
		if got := tell(t, s.Addr(), http.MethodGet, "kept", AzuriteKey); got != test.want {
			t.Errorf("after %s: %d, want %d", test.what, got, test.want)
		}
	}
}

// TestAzuriteInMemory: nothing is written, and nothing outlives the process.
func TestAzuriteInMemory(t *testing.T) {
	s := startAzurite(t, nil)
	if got := tell(t, s.Addr(), http.MethodPut, "kept", AzuriteKey); got != http.StatusCreated {
		t.Fatalf("it answered %d", got)
	}
	must(t, s.Restart(t.Context(), Keep))
	if got := tell(t, s.Addr(), http.MethodGet, "kept", AzuriteKey); got != http.StatusNotFound {
		t.Errorf("after a crash: %d", got)
	}
	if left, _ := os.ReadDir(s.folder); len(left) > 0 {
		t.Errorf("it wrote %v", left)
	}
}

// TestAzuritePause: its process is the server itself, not one that npm put
// before it.
func TestAzuritePause(t *testing.T) {
	s := startAzurite(t, nil)
	must(t, s.Pause())
	if got := tell(t, s.Addr(), http.MethodPut, "kept", AzuriteKey); got != 0 {
		t.Errorf("one that stands still answered %d", got)
	}
	must(t, s.Resume())
	if got := tell(t, s.Addr(), http.MethodGet, "none", AzuriteKey); got != http.StatusNotFound {
		t.Errorf("it answered %d after the pause", got)
	}
}

// TestAzuriteKey: one who knows its key gets in, nobody else, and no command
// line shows it.
func TestAzuriteKey(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("hunter2hunter2"))
	s := startAzurite(t, &AzuriteOptions{Key: key})
	if got := tell(t, s.Addr(), http.MethodPut, "kept", AzuriteKey); got != http.StatusForbidden {
		t.Errorf("with everybody's key it answered %d", got)
	}
	if got := tell(t, s.Addr(), http.MethodPut, "kept", key); got != http.StatusCreated {
		t.Errorf("with its key it answered %d", got)
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.run.cmd.Process.Pid)); err == nil && strings.Contains(string(line), key) {
		t.Errorf("the command line shows it: %q", line)
	}
}

// TestAzuriteMissing: what to install is said where it is not there, and where
// something else has its name.
func TestAzuriteMissing(t *testing.T) {
	startAzurite(t, nil) // skips where there is no node
	script := t.TempDir() + "/azurite-blob"
	must(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700))
	for _, program := range []string{"no-such-azurite", script} {
		_, err := Azurite(t.Context(), &AzuriteOptions{Program: program})
		var missing *MissingError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), "npm install -g azurite") {
			t.Errorf("%s: it does not say what to install: %v", program, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	_, err := Azurite(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "nodejs") {
		t.Errorf("without node: %v", err)
	}
	if errors.Is(err, lockspec.ErrConfig) {
		t.Error("a missing program is no mistake of a setting")
	}
}

// TestAzuriteCycles: start and end leave no process, folder or port.
func TestAzuriteCycles(t *testing.T) {
	cycles := 5
	if os.Getenv("LOCKCHECK_FULL") != "" {
		cycles = 100
	}
	for range cycles {
		s := startAzurite(t, nil)
		pid, folder, addr := s.run.cmd.Process.Pid, s.folder, s.Addr()
		must(t, s.Close())
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("folder %s is left", folder)
		}
		if alive(pid) {
			t.Fatalf("process %d is left", pid)
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Fatalf("somebody still listens at %s", addr)
		}
	}
}
