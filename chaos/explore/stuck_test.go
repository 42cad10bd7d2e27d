package explore

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// lockOf is a lock whose every acquisition does what the function does.
type lockOf func(context.Context) error

func (f lockOf) Acquire(ctx context.Context, _ lockspec.Request) (lockspec.Lease, error) {
	return nil, f(ctx)
}
func (lockOf) Close() error { return nil }

func harnessOf(f lockOf) *Harness {
	return &Harness{
		Open: func(*Node) (lockspec.Client, error) { return f, nil },
		Describe: func(time.Duration) lockspec.Description {
			return lockspec.Description{Name: "toy", Class: lockspec.Leased}
		},
	}
}

// TestDeadlock: a world in which nothing can happen any more is no pass; the
// goroutines that wait are told.
func TestDeadlock(t *testing.T) {
	out := Run(t, harnessOf(func(context.Context) error {
		waitsForNobody()
		return nil
	}), 1, nil)
	if !errors.Is(out.Err, ErrStuck) || !strings.Contains(out.Err.Error(), "waitsForNobody") {
		t.Errorf("got %v", out.Err)
	}
}

// TestIdle: what counts is how often it looked, not how much time went by.
func TestIdle(t *testing.T) {
	for name, played := range map[string]bool{"nothing was played": false, "something was": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var count atomic.Int64
				ticks, done, said := make(chan time.Time), make(chan struct{}), make(chan bool, 1)
				go func() { said <- idle(ticks, done, &count) }()
				for range looks - 1 {
					ticks <- time.Time{}
				}
				time.Sleep(time.Hour) // in which it never looked
				synctest.Wait()
				if len(said) > 0 {
					t.Fatal("it gave up before it had looked often enough")
				}
				if played {
					count.Add(1)
				}
				ticks <- time.Time{}
				if <-said == played {
					t.Errorf("it says %v", !played)
				}
			})
		})
	}
}

// TestWatchSleeps: while schedules end nothing of a watch runs, and one that
// does not end is told all the same.
func TestWatchSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string, 1)
		ended, stop := watch(10*time.Second, func(why string) { told <- why })
		defer stop()
		before := runtime.NumGoroutine()
		for range 100 {
			time.Sleep(900 * time.Millisecond)
			ended()
			if n := runtime.NumGoroutine(); n != before {
				t.Fatalf("%d goroutines, before it were %d", n, before)
			}
		}
		time.Sleep(10900 * time.Millisecond)
		if len(told) > 0 {
			t.Error("it was told too early")
		}
		time.Sleep(200 * time.Millisecond)
		if len(told) == 0 {
			t.Error("nothing was told")
		}
	})
}

func waitsForNobody() { <-make(chan struct{}) }

// TestRealNetwork: a lock that speaks to the real network keeps the bubble from
// going on; the call that blocks is told, and what to do.
func TestRealNetwork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var open sync.Map
	h := harnessOf(func(context.Context) error {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return lockspec.ErrUnavailable
		}
		open.Store(c, true)
		readsForEver(c)
		return lockspec.ErrUnavailable
	})
	said := ""
	r := explore(t, h, &Options{Schedules: 1, Repeat: -1, Size: Size{1, 1, 0}, Limit: 200 * time.Millisecond}, func(dump string) {
		said = dump
		l.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
	})
	if !strings.Contains(said, "readsForEver") || !strings.Contains(said, "Clock and Call") || r.Schedules != 1 {
		t.Errorf("%d schedules; told: %s", r.Schedules, said)
	}
}

func readsForEver(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }

// TestRealTime: so does one that waits for a goroutine outside.
func TestRealTime(t *testing.T) {
	answer := make(chan struct{})
	h := harnessOf(func(context.Context) error {
		waitsOutside(answer)
		return lockspec.ErrUnavailable
	})
	said := ""
	explore(t, h, &Options{Schedules: 1, Repeat: -1, Size: Size{1, 1, 0}, Limit: 200 * time.Millisecond}, func(dump string) {
		said = dump
		close(answer)
	})
	if !strings.Contains(said, "waitsOutside") || !strings.Contains(said, "stands still") {
		t.Errorf("told: %s", said)
	}
}

func waitsOutside(c chan struct{}) { <-c }

// TestPanic: a panic of the lock is told with the seed's error, not lost.
func TestPanic(t *testing.T) {
	h := harnessOf(nil)
	h.Open = func(*Node) (lockspec.Client, error) { panic("no lock") }
	if out := Run(t, h, 1, nil); out.Err == nil || !strings.Contains(out.Err.Error(), "no lock") {
		t.Errorf("got %v", out.Err)
	}
}
