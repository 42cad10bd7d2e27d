package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// envCut makes the test binary the inside of TestCutOff.
const envCut = "LOCKCHECK_TEST_CUT"

// TestCutOff: a holder whose packets get lost knows it before the server frees
// the key, and the server frees it within the bound. No proxy shows that: its
// kernel answers keepalives for a holder who is gone. So the test runs in a
// network of its own, where the packets of one connection are dropped.
func TestCutOff(t *testing.T) {
	newLab(t) // skips where there is none
	_, err := exec.LookPath("iptables")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("dropping packets needs root and iptables")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envCut+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == cannotCut:
		t.Skip("this machine gives no network of its own")
	case err != nil:
		t.Error(err)
	}
}

const cannotCut = 3

// cutOff is the inside of TestCutOff.
func cutOff() int {
	for _, line := range []string{"ip link set lo up", "iptables -N cut"} {
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			fmt.Printf("%s: %v: %s\n", line, err, out)
			return cannotCut
		}
	}
	if err := cut(context.Background()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func cut(ctx context.Context) error {
	s, err := containers.Postgres(ctx, &containers.PostgresOptions{Password: password})
	if err != nil {
		return err
	}
	defer s.Close()
	o := &Options{Probe: 300 * time.Millisecond}
	holder, err1 := New(at(s.Addr()), o)
	other, err2 := New(at(s.Addr()), o)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	defer holder.Close()
	defer other.Close()
	e, err := reference.New(holder, nil)
	if err != nil {
		return err
	}
	lease, err := e.TryAcquire(ctx, "k", nil)
	if err != nil {
		return err
	}
	var port int
	for s := range holder.pool.all {
		port = s.net.LocalAddr().(*net.TCPAddr).Port
	}
	for _, way := range []string{"--sport", "--dport"} {
		if out, err := exec.Command("iptables", "-A", "INPUT", "-p", "tcp", way, fmt.Sprint(port), "-j", "DROP").CombinedOutput(); err != nil {
			return fmt.Errorf("iptables: %w: %s", err, out)
		}
	}
	begin := time.Now()
	lost := make(chan time.Duration, 1)
	go func() { <-lease.Done(); lost <- time.Since(begin) }()
	bound := holder.Describe().Bounds
	for {
		sent := time.Since(begin)
		_, err := other.Attempt(ctx, reference.Claim{Key: "k", Owner: "b", Count: 1})
		switch {
		case err == nil:
			knew := <-lost
			fmt.Printf("cut off: the holder gave up after %v (bound %v), the key was free after %v (bound %v)\n", knew, bound.Loss, time.Since(begin), bound.Takeover)
			if knew > time.Since(begin) || knew > bound.Loss || sent > bound.Takeover {
				return errors.New("out of bounds")
			}
			return nil
		case !errors.Is(err, lockspec.ErrBusy):
			return err
		case sent > 2*bound.Takeover:
			return fmt.Errorf("still held after %v", sent)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
