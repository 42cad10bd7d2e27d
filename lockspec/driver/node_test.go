package driver

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// startToy starts this test binary as a driver.
func startToy(t *testing.T, config Config) *Node {
	t.Helper()
	if config.Name == "" {
		config.Name = "n1"
	}
	if !slices.Contains(config.Env, noRaceSleep) {
		config.Env = append(config.Env, noRaceSleep)
	}
	if config.Log == nil {
		config.Log = t.Output()
	}
	n, err := Start(within(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// within is a context that bounds a test's wait.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// await takes a value within the bound of a test's wait.
func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-within(t).Done():
		t.Fatalf("%s: nothing came", what)
		panic("unreachable")
	}
}

// until waits for a condition that nothing announces.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for ctx := within(t); !is(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%s: not in time", what)
		}
	}
}

func acquire(t *testing.T, n *Node, process, key string) lockspec.Lease {
	t.Helper()
	lease, err := n.Client(process).Acquire(within(t), lockspec.Request{Key: key, Lease: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func wants(t *testing.T, what string, err error, want lockspec.Outcome) {
	t.Helper()
	if got := lockspec.OutcomeOf(err); got != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

func TestNodeAcquiresAndReleases(t *testing.T) {
	n := startToy(t, Config{})
	ctx := within(t)
	lease := acquire(t, n, "p1", "k")
	if got := lease.Granted(); got != 2*time.Second {
		t.Errorf("granted %v, want 2s", got)
	}
	if got := lease.(lockspec.Fenced).Token(); got != 1 {
		t.Errorf("token %d, want 1", got)
	}
	_, err := n.Client("p2").Acquire(ctx, lockspec.Request{Key: "k"})
	wants(t, "second acquisition", err, lockspec.Busy)
	wants(t, "release", lease.Release(ctx), lockspec.OK)
	wants(t, "second release", lease.Release(ctx), lockspec.NotHeld)
	if err := n.Shutdown(ctx, true); err != nil {
		t.Error(err)
	}
	if err := n.Err(); err != nil {
		t.Error(err)
	}
}

func TestDescriptionCrosses(t *testing.T) {
	n := startToy(t, Config{})
	got, want := n.Describe(), toyDescription()
	if got.Name != want.Name || got.Class != want.Class || got.Capacity != want.Capacity || got.Bounds != want.Bounds ||
		!slices.Equal(got.Features, want.Features) || !slices.Equal(got.Hazards, want.Hazards) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if n.MaxProcesses() != maxProcesses {
		t.Errorf("max processes %d", n.MaxProcesses())
	}
	plain := startToy(t, Config{URL: "toy:plain"}).Describe()
	if plain.Class != lockspec.Leased || len(plain.Hazards) != 0 {
		t.Errorf("a driver without a class is %q with %v", plain.Class, plain.Hazards)
	}
}

func TestPowersCross(t *testing.T) {
	n := startToy(t, Config{})
	ctx := within(t)
	lease := acquire(t, n, "p1", "k\xff?renewals")
	if sent := lease.(lockspec.Sender).Sent(); sent == 0 || !n.ClockProven() {
		t.Errorf("sent %d, clock proven %v", sent, n.ClockProven())
	}
	wants(t, "renew", lease.(lockspec.Renewer).Renew(ctx, 200*time.Millisecond), lockspec.OK)
	renewals := lease.(lockspec.RenewalSource).Renewals()
	if len(renewals) == 0 {
		t.Error("the reply overtook the renewals")
	}
	for i := range 200 { // more than the channel takes
		r := await(t, "renewal", renewals)
		if want := time.Duration(i+1) * time.Millisecond; r.Lease != want || r.Sent == 0 {
			t.Fatalf("renewal %+v, want a lease of %v", r, want)
		}
	}
	wants(t, "held", lease.(lockspec.HoldChecker).Held(ctx), lockspec.OK)
	token, err := lease.(lockspec.Worker).Work(ctx, time.Millisecond)
	if err != nil || token != 1 {
		t.Errorf("work: %d, %v", token, err)
	}
	if left, ok := lease.(lockspec.Remainder).Left(); ok {
		t.Errorf("left %v", left)
	}
	wants(t, "release", lease.Release(ctx), lockspec.OK)

	doubtful := acquire(t, n, "p1", "d?doubts")
	wants(t, "renew", doubtful.(lockspec.Renewer).Renew(ctx, time.Hour), lockspec.OK)
	wants(t, "held in doubt", doubtful.(lockspec.HoldChecker).Held(ctx), lockspec.Unavailable)
	if !await(t, "doubt", doubtful.(lockspec.Doubter).Doubts()) {
		t.Error("doubt came as sure")
	}

	renewed := acquire(t, n, "p1", "r")
	wants(t, "renew", renewed.(lockspec.Renewer).Renew(ctx, 3*time.Second), lockspec.OK)
	if got := renewed.Granted(); got != 3*time.Second {
		t.Errorf("granted %v after renewing for 3s", got)
	}
}

func TestLossCrosses(t *testing.T) {
	n := startToy(t, Config{})
	lease := acquire(t, n, "p1", "k?lost=50ms")
	lost := lease.(lockspec.Notifier)
	if lost.Cause() != nil || lease.(lockspec.LossStamper).LostAt() != 0 {
		t.Error("lost before it was")
	}
	before := n.stamp()
	await(t, "loss", lost.Lost())
	if err := lost.Cause(); !errors.Is(err, lockspec.ErrLost) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("cause %v", err)
	}
	if at := lease.(lockspec.LossStamper).LostAt(); at < before || at > n.stamp() {
		t.Errorf("lost at %d, seen between %d and %d", at, before, n.stamp())
	}
	_, err := lease.(lockspec.Worker).Work(within(t), 0)
	wants(t, "work", err, lockspec.Lost)
}

func TestLeasesThatDiffer(t *testing.T) {
	n := startToy(t, Config{})
	if plain := acquire(t, n, "p1", "p?plain"); plain.(lockspec.Sender).Sent() != 0 {
		t.Error("a lease that tells no send has one")
	} else if _, fenced := plain.(lockspec.Fenced); fenced {
		t.Error("a lease without a token has a Token method")
	} else {
		wants(t, "held", plain.(lockspec.HoldChecker).Held(within(t)), lockspec.Unsupported)
		wants(t, "renew", plain.(lockspec.Renewer).Renew(within(t), 0), lockspec.Unsupported)
	}
	session := acquire(t, n, "p1", "s?session")
	if left, ok := session.(lockspec.Remainder).Left(); !ok || left != 0 {
		t.Errorf("left %v, %v, want 0, true", left, ok)
	}
	if d := session.(lockspec.Describer).Describe(); !d.Claims(lockspec.SessionLease) || d.Claims(lockspec.Renew) || d.Bounds.Loss != time.Second || d.Name != "toy 1" {
		t.Errorf("description of the handle: %+v", d)
	}
	if n.Describe().Claims(lockspec.SessionLease) {
		t.Error("the handle's description became the node's")
	}
}

func TestPrintsGoToTheLog(t *testing.T) {
	var log bytes.Buffer
	n := startToy(t, Config{Log: &log})
	acquire(t, n, "p1", "k?print")
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if n.Err() != nil || !strings.Contains(log.String(), "hello, stdout\n") || !strings.Contains(log.String(), "hello, kept stdout\n") {
		t.Errorf("violation %v, log %q", n.Err(), log.String())
	}
}

func TestCancelFromAfar(t *testing.T) {
	n := startToy(t, Config{})
	acquire(t, n, "p1", "k")
	client := n.Client("p2")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := client.Acquire(ctx, lockspec.Request{Key: "k", Wait: lockspec.NoLimit})
	wants(t, "cancelled acquisition", err, lockspec.Cancelled)
	var answered *replyError
	if !errors.As(err, &answered) {
		t.Errorf("%v is not what the driver answered", err)
	}
	// A grant that crosses the cancel is a tenure.
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	lease, err := client.Acquire(ctx, lockspec.Request{Key: "c?deaf=60ms"})
	if err != nil {
		t.Fatalf("a grant within the cancel bound: %v", err)
	}
	wants(t, "its release", lease.Release(within(t)), lockspec.OK)
	_, err = client.Acquire(ctx, lockspec.Request{Key: "k"})
	if !lockspec.NoEffect(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that was not sent: %v", err)
	}
}

func TestLateGrantIsReleased(t *testing.T) {
	type report struct {
		op, process, key string
		outcome          lockspec.Outcome
		token            int64
	}
	reports := make(chan report, 8)
	n := startToy(t, Config{OnLate: func(op, process, key string, outcome lockspec.Outcome, token int64) {
		reports <- report{op, process, key, outcome, token}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	const key = "k\xff?deaf=500ms"
	_, err := n.Client("p1").Acquire(ctx, lockspec.Request{Key: key})
	if !errors.Is(err, context.DeadlineExceeded) || lockspec.NoEffect(err) {
		t.Errorf("acquire: %v", err)
	}
	if got, want := await(t, "late grant", reports), (report{"acquire", "p1", key, lockspec.OK, 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := await(t, "its release", reports), (report{"release", "p1", key, lockspec.OK, 0}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	acquire(t, n, "p2", key)
}

func TestDriverThatDiesInACall(t *testing.T) {
	exits := make(chan error, 1)
	n := startToy(t, Config{OnExit: func(err error) { exits <- err }})
	lease := acquire(t, n, "p1", "a")
	open := make(chan error, 1)
	go func() {
		_, err := lease.(lockspec.Worker).Work(within(t), time.Hour)
		open <- err
	}()
	_, err := n.Client("p2").Acquire(within(t), lockspec.Request{Key: "k?exit"})
	wants(t, "the call that killed it", err, lockspec.Unavailable)
	wants(t, "another open call", await(t, "open call", open), lockspec.Unavailable)
	if err := await(t, "OnExit", exits); !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "toy: leaving") {
		t.Errorf("OnExit(%v)", err)
	}
	await(t, "Exited", n.Exited())
}

// TestDeathBeforeRestart: a driver that died by itself is told of, before its
// next incarnation begins, however soon somebody starts it anew.
func TestDeathBeforeRestart(t *testing.T) {
	for range 20 {
		exits := make(chan error, 2)
		n := startToy(t, Config{OnExit: func(err error) { exits <- err }})
		_, err := n.Client("p1").Acquire(within(t), lockspec.Request{Key: "k?exit"})
		wants(t, "the call that killed it", err, lockspec.Unavailable)
		await(t, "Exited", n.Exited())
		if err := n.Restart(within(t)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-exits:
		default:
			t.Fatal("the death went untold")
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if len(exits) > 0 {
			t.Fatal("an asked end was told")
		}
	}
}

func TestRestart(t *testing.T) {
	exits := make(chan error, 4)
	n := startToy(t, Config{OnExit: func(err error) { exits <- err }})
	client := n.Client("p1")
	old, err := client.Acquire(within(t), lockspec.Request{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	first, gone := n.PID(), n.Exited()
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "Exited", gone)
	wants(t, "release after the kill", old.Release(within(t)), lockspec.Unavailable)
	if err := n.Restart(within(t)); err != nil {
		t.Fatal(err)
	}
	if n.Incarnation() != 2 || n.PID() == first {
		t.Errorf("incarnation %d, pid %d", n.Incarnation(), n.PID())
	}
	if _, err := client.Acquire(within(t), lockspec.Request{Key: "k"}); err != nil {
		t.Errorf("the client does not go on: %v", err)
	}
	wants(t, "a lease of the dead incarnation", old.Release(within(t)), lockspec.Unavailable)
	select {
	case <-old.(lockspec.Notifier).Lost():
		t.Error("a killed driver signals no loss")
	case err := <-exits:
		t.Errorf("an asked end was reported: %v", err)
	default:
	}
	if err := n.Restart(within(t)); err != nil || n.Incarnation() != 3 {
		t.Errorf("restart of one that runs: %v, incarnation %d", err, n.Incarnation())
	}
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		t.Error(err)
	}
	if err := n.Restart(within(t)); !errors.Is(err, errClosed) {
		t.Errorf("restart of a closed node: %v", err)
	}
}

func TestClosedClient(t *testing.T) {
	n := startToy(t, Config{})
	client := n.Client("p1")
	if err := errors.Join(client.Close(), client.Close()); err != nil {
		t.Error(err)
	}
	_, err := client.Acquire(within(t), lockspec.Request{Key: "k"})
	wants(t, "acquire on a closed client", err, lockspec.Unavailable)
}

func TestServiceAndClock(t *testing.T) {
	n := startToy(t, Config{URL: "toy:away"})
	wants(t, "ping", n.Ping(within(t), false), lockspec.OK)
	wants(t, "ping of the service", n.Ping(within(t), true), lockspec.Unavailable)
	wants(t, "clock", n.SetClock(within(t), time.Hour, 1), lockspec.OK)
	wants(t, "rate", n.SetClock(within(t), 0, 1.5), lockspec.Unsupported)
}

// Stamps that cannot be drop the clock, whichever they are.
func TestStampsOutsideTheirRequest(t *testing.T) {
	for _, key := range []string{"k?sent=1h", "k?sent=-1h", "k?lost=0ms&stamp=1h", "k?lost=0ms&stamp=-1h"} {
		notes := make(chan string, 1)
		n := startToy(t, Config{PingEvery: -1, OnNote: func(text string) { notes <- text }})
		lease := acquire(t, n, "p1", key)
		if strings.Contains(key, "lost") {
			await(t, "loss", lease.(lockspec.Notifier).Lost())
		}
		if note := await(t, "note", notes); !strings.Contains(note, "_ns of ") {
			t.Errorf("%s: note %q", key, note)
		}
		if at := lease.(lockspec.LossStamper).LostAt(); n.ClockProven() || at != 0 || strings.Contains(key, "sent") && lease.(lockspec.Sender).Sent() != 0 {
			t.Errorf("%s: still believed", key)
		}
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		n, err := Start(within(t), Config{Name: "n1", Env: []string{noRaceSleep}})
		if err != nil {
			t.Fatal(err)
		}
		lease := acquire(t, n, "p1", "k?renewals")
		wants(t, "renew", lease.(lockspec.Renewer).Renew(within(t), 200*time.Millisecond), lockspec.OK)
		if err := errors.Join(n.Restart(within(t)), n.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Start(within(t), bad("dies")); err == nil {
		t.Fatal("it started")
	}
	until(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}
