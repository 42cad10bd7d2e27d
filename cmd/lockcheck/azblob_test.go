package main

import (
	"encoding/base64"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference/backends/azureblob"
	"github.com/lockcheck/lockcheck/reports/result"
)

// ownAzurite is an emulator that a run is pointed at, and knows nothing more
// of. It has a container named theirs.
func ownAzurite(t *testing.T, key string) (containers.Server, *azureblob.Faults) {
	t.Helper()
	s, err := containers.Azurite(t.Context(), &containers.AzuriteOptions{Key: key})
	var missing *containers.MissingError
	if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	must(t, err)
	f, err := azureblob.NewFaults(t.Context(), startedAzurite{s}, "theirs", &azureblob.Options{Account: containers.AzuriteAccount, Key: key})
	t.Cleanup(func() {
		if f != nil {
			_ = f.Close()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	return s, f
}

// secretKey is in base64 for "hunter2" and more.
var secretKey = base64.StdEncoding.EncodeToString([]byte("hunter2, and more than that"))

// TestUpAzurite: every case of the contract that applies, on a service that the
// run starts itself. It takes two minutes, most of it leases of 15 s that have
// to end; without LOCKCHECK_FULL a few that need none stand for all.
func TestUpAzurite(t *testing.T) {
	ownAzurite(t, secretKey) // skips where there is none
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	args, least := []string{"run", "up:azurite", "--suite", "contract", "--case", "A01,A02,A07,A11,A12,B01,B02,B03,C03,D03,E12,E14,F02,F04,F07,G03,G04,H05"}, 10
	if os.Getenv("LOCKCHECK_FULL") != "" {
		args, least = args[:4], 60
	}
	r := (&cli{}).run(t, args...).want(t, result.ExitOK, result.ExitInconclusive).report(t)
	passed := 0
	for i := range r.Cases {
		switch k := &r.Cases[i]; k.Status {
		case result.Pass:
			passed++
		case result.NotRun:
		case result.Inconclusive:
			t.Logf("%s: %s: %s", k.ID, k.Status, k.Reason)
		case result.Unsupported:
			if k.ID != "D15" && k.ID != "D17" && k.ID != "H08" && k.ID != "H09" && !strings.Contains(k.Reason, "not claimed") {
				t.Errorf("%s: %s", k.ID, k.Reason)
			}
		default:
			t.Errorf("%s: %s: %s", k.ID, k.Status, k.Reason)
		}
	}
	if passed < least {
		t.Errorf("only %d cases passed", passed)
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("temporary folders are left: %v", left)
	}
}

func azuriteAt(addr, user, path string) string { return "azblob://" + user + "@" + addr + path }

// TestAzblobNotOurs: a container that the run did not make. Nothing of the
// contract reaches into it, the user's keys stay, the run's own go, and the key
// is told to nobody.
func TestAzblobNotOurs(t *testing.T) {
	s, f := ownAzurite(t, secretKey)
	must(t, f.Seed(t.Context(), "k", "another", time.Minute))
	target := azuriteAt(s.Addr(), containers.AzuriteAccount+":"+url.QueryEscape(secretKey), "/theirs?tls=off")
	c := (&cli{}).run(t, "run", target, "--case", "A01,F02,H01,E03").want(t, result.ExitOK, result.ExitInconclusive)
	r := c.report(t)
	for id, want := range map[string]result.Status{"A01": result.Pass, "F02": result.Pass, "H01": result.Unsupported, "E03": result.Unsupported} {
		if k := caseOf(t, r, id); k.Status != want && (want != result.Pass || k.Status != result.Inconclusive) {
			t.Errorf("%s: %s: %s", id, k.Status, k.Reason)
		}
	}
	if held, err := f.Inspect(t.Context(), "k"); err != nil || len(held) != 1 || held[0].Owner != "another" {
		t.Errorf("the user's key is %v, %v", held, err)
	}
	if names, err := f.Guards(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("guards %q afterwards, %v; the user had one", names, err)
	}
	told(t, c, secretKey)
	told(t, c, url.QueryEscape(secretKey))
}

// TestAzblobTrouble: one line that names the setting that is wrong, soon, and
// without a secret.
func TestAzblobTrouble(t *testing.T) {
	right := base64.StdEncoding.EncodeToString([]byte("the right key"))
	s, f := ownAzurite(t, right)
	_ = f
	addr := s.Addr()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	nobody := silent.Addr().String()
	silent.Close()
	mine := containers.AzuriteAccount + ":" + url.QueryEscape(right)
	wrong := containers.AzuriteAccount + ":" + url.QueryEscape(secretKey)
	troubles(t, []badTarget{
		{"unknown option", azuriteAt(addr, wrong, "/theirs?lese=1s"), result.ExitUsage, []string{`"lese"`, "lease"}},
		{"option of a started service", "up:azurite?fence=on", result.ExitUsage, []string{`"fence"`, "fencing"}},
		{"form", azuriteAt(addr, "me:hunter2/more", "/theirs"), result.ExitUsage, []string{"azblob://", "%2F"}},
		{"no base64", azuriteAt(addr, "me:hunter2", "/theirs"), result.ExitUsage, []string{"key", "base64"}},
		{"lease too short", azuriteAt(addr, wrong, "/theirs?lease=5s"), result.ExitUsage, []string{"lease", "15s to 1m0s"}},
		{"wrong key", azuriteAt(addr, wrong, "/theirs?tls=off"), result.ExitUsage, []string{"KEY", "refuses"}},
		{"wrong SAS", azuriteAt(addr, containers.AzuriteAccount, "/theirs?tls=off&sv=2021-10-04&sr=c&sp=rcw&se=2099-01-01&sig=hunter2"), result.ExitUsage, []string{"KEY", "refuses"}},
		{"missing container", azuriteAt(addr, mine, "/ours?tls=off"), result.ExitUsage, []string{"CONTAINER", "no container"}},
		{"nobody there", azuriteAt(nobody, wrong, "/theirs?tls=off"), result.ExitUnavailable, []string{"HOST:PORT", nobody}},
		{"nobody there, with a SAS", azuriteAt(nobody, "me", "/theirs?tls=off&sv=1&sig=hunter2"), result.ExitUnavailable, []string{"HOST:PORT", nobody}},
		{"TLS where there is none", azuriteAt(addr, wrong, "/theirs"), result.ExitUsage, []string{"TLS", "tls=off"}},
	}, secretKey, url.QueryEscape(secretKey), right)
}

var _ interface {
	contract.NodeHost
	contract.Observer
	contract.TrafficCounter
	contract.Interferer
	contract.Evicter
	contract.Restarter
	contract.Stopper
	contract.Inspector
	contract.Emptier
	contract.Misdirector
} = azuriteHarness{}
