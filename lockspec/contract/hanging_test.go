package contract_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reports/result"
)

// envDeaf names operations of which a driver never hears, whatever else it
// answers.
const envDeaf = "LOCKCHECK_TEST_DEAF"

// hardOfHearing makes this process such a driver, if it is one.
func hardOfHearing(open driver.Opener) {
	ops := os.Getenv(envDeaf)
	if ops == "" || os.Getenv(driver.EnvDriver) == "" {
		return
	}
	hears, says := io.Pipe()
	go func() {
		defer says.Close()
		for in := bufio.NewReader(os.Stdin); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if !strings.Contains(ops, line[strings.Index(line, `"op":`)+5:][:6]) {
				_, _ = io.WriteString(says, line)
			}
		}
	}()
	if err := driver.Serve(hears, os.Stdout, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestALockThatHangs: a call that never returns while its driver still answers
// pings is the lock's fault; a driver that answers nothing says nothing of it.
func TestALockThatHangs(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, deaf string
		accused    bool
	}{
		{"a release", `"release"`, true},
		{"a release, and its driver", `"release" "ping"`, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, fault{})
			p, err := contract.NewProcesses(t.Context(), contract.ProcessOptions{Lease: labLease,
				Node: driver.Config{Endpoints: []string{l.addr}, Env: []string{envDeaf + "=" + row.deaf}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.Close() })
			r := checkCase(t, processes{p, l}, "B01")
			err = finds(r, "B01", "contract", "operation-hangs")
			if row.accused && err != nil {
				t.Error(err)
			}
			if c := caseOf(t, r, "B01"); !row.accused && (err == nil || c.Status != result.Error) {
				t.Errorf("%s %s: %+v", c.Status, c.Reason, r.Findings)
			}
		})
	}
}
