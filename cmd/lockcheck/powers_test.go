package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
)

// started is the harness of an embedded server, as a run starts it.
func started(t *testing.T) embedded {
	t.Helper()
	h, _ := startedFor(t, time.Second)
	return h
}

// startedFor is the same for a lease, and the server itself.
func startedFor(t *testing.T, lease time.Duration) (embedded, *server) {
	t.Helper()
	s, err := startServer(t.Context(), nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	to := target{}
	to.at(s.addr, lease)
	p, err := contract.NewProcesses(t.Context(), contract.ProcessOptions{Node: driver.Config{URL: to.url}, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	h := newEmbedded(p, s.admin)
	t.Cleanup(func() { _ = h.Close() })
	return h, s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, h contract.Harness, key string) (lockspec.Lease, error) {
	t.Helper()
	c, err := h.Open(t.Context(), "n1")
	must(t, err)
	return c.Acquire(t.Context(), lockspec.Request{Key: key, Lease: time.Second})
}

// reaching are the powers that the two harnesses of our own store share.
type reaching interface {
	contract.Harness
	contract.Evicter
	contract.Restarter
	contract.Inspector
}

func TestPowersReachIntoTheService(t *testing.T) {
	for name, h := range map[string]reaching{"embedded": started(t), "inside": newInside(time.Second, offers{})} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if _, err := take(t, h, "k"); err != nil {
				t.Fatal(err)
			}
			if who, err := h.Inspect(ctx, "k"); err != nil || len(who) != 1 || who[0].Token == 0 || who[0].Owner == "" {
				t.Errorf("inspect: %v %v", who, err)
			}
			must(t, h.Evict(ctx, "k"))
			if err := h.Evict(ctx, "k"); !errors.Is(err, lockspec.ErrNotHeld) {
				t.Errorf("an eviction that struck nothing: %v", err)
			}
			must(t, h.Seed(ctx, "k", "stranger", time.Minute))
			if _, err := take(t, h, "k"); !errors.Is(err, lockspec.ErrBusy) {
				t.Errorf("a seeded key: %v", err)
			}
			must(t, h.Restart(ctx))
			if who, err := h.Inspect(ctx, "k"); err != nil || who != nil {
				t.Errorf("after a restart: %v %v", who, err)
			}
			if _, err := take(t, h, "k"); err != nil {
				t.Errorf("after a restart: %v", err)
			}
		})
	}
}

func TestPowersStandBetweenClientsAndTheService(t *testing.T) {
	h := started(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := h.Interfere(ctx, contract.HoldReply, "acquire", "held", 1)
	must(t, err)
	granted := make(chan error, 1)
	go func() {
		_, err := take(t, h, "held")
		granted <- err
	}()
	must(t, s.Await(ctx))
	select {
	case err := <-granted:
		t.Errorf("the reply was held, and came: %v", err)
	default:
	}
	must(t, s.Lift(ctx))
	must(t, s.Lift(ctx))
	must(t, <-granted)
	if n, err := h.Requests(ctx, "acquire", "held"); err != nil || n != 1 {
		t.Errorf("%d acquisitions were counted: %v", n, err)
	}

	must(t, h.Stop(ctx))
	go func() {
		_, err := take(t, h, "stopped")
		granted <- err
	}()
	for n := 0; n == 0; {
		n, err = h.Requests(ctx, "acquire", "stopped")
		must(t, err)
	}
	select {
	case err := <-granted:
		t.Errorf("a stopped service answered: %v", err)
	default:
	}
	must(t, h.Continue(ctx))
	must(t, <-granted)
}

func TestAwaitOfWhatNeverStrikesIsBounded(t *testing.T) {
	h := started(t)
	s, err := h.Interfere(t.Context(), contract.DropReply, "renew", "nobody", 1)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Await(ctx); err == nil {
		t.Error("it struck")
	}
}
