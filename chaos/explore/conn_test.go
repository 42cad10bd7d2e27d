package explore

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/lockspec"
)

// echo is a service that says what it hears.
type echo struct{ leaseServer }

func (*echo) Asked([]byte) (Request, int64)   { return Request{Op: Acquire, Key: theKey}, 0 }
func (*echo) Answered(b []byte) (int64, bool) { return 0, false }
func (*echo) Serve(_ int, c net.Conn) {
	defer c.Close()
	_, _ = io.Copy(c, c)
}

// inWorld gives a test a node of a world with the echo, which the step strikes.
func inWorld(t *testing.T, steps []*step, body func(t *testing.T, w *World, n *Node)) {
	synctest.Test(t, func(t *testing.T) {
		p := &plan{network: network{least: time.Millisecond, most: 2 * time.Millisecond}, open: true, steps: steps, pending: len(steps),
			seen: make([][len(allPhases) * legs]uint16, 1)}
		w := newWorld(1, p)
		w.service = &echo{leaseServer{w: w}}
		w.doors = append(w.doors, &gate{w: w})
		w.rec = deaf{}
		body(t, w, w.Node("n1"))
		w.end()
		synctest.Wait()
	})
}

func dialled(t *testing.T, n *Node) net.Conn {
	t.Helper()
	c, err := n.Dial(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func hear(c net.Conn, n int) (string, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	return string(b), err
}

// TestConnectionBringsEverythingInOrder, the end last.
func TestConnectionBringsEverythingInOrder(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *World, n *Node) {
		c := dialled(t, n)
		began := time.Now()
		say(t, c, "one ")
		say(t, c, "two")
		if got, err := hear(c, 7); got != "one two" || err != nil {
			t.Errorf("heard %q, %v", got, err)
		}
		if took := time.Since(began); took < 2*time.Millisecond || took > 5*time.Millisecond {
			t.Errorf("there and back took %v", took)
		}
		c.Close()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed connection read %v", err)
		}
	})
}

// TestACutHoldsTheEndToo: a server must not hear at once of a client that ends
// behind a cut link, and everything arrives when it heals.
func TestACutHoldsTheEndToo(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *World, n *Node) {
		c := dialled(t, n)
		link := n.links[0]
		locked(w, link.out.shut)
		say(t, c, "late")
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := hear(c, 4); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("behind a cut link: %v", err)
		}
		_ = c.SetReadDeadline(time.Time{})
		locked(w, link.out.open)
		if got, err := hear(c, 4); got != "late" || err != nil {
			t.Errorf("after healing: %q, %v", got, err)
		}
	})
}

func locked(w *World, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// TestALostRequestBreaksTheConnection, because TCP loses nothing else.
func TestALostRequestBreaksTheConnection(t *testing.T) {
	for _, name := range []string{"drop-request", "drop-reply"} {
		t.Run(name, func(t *testing.T) {
			s := &step{id: "f1", node: "n1", at: place{0, 0}, nth: 1}
			for i := range worldFaults {
				if worldFaults[i].Name == name {
					s.fault = &worldFaults[i]
				}
			}
			inWorld(t, []*step{s}, func(t *testing.T, w *World, n *Node) {
				c := dialled(t, n)
				say(t, c, "lost")
				if _, err := hear(c, 4); !errors.Is(err, lockspec.ErrUnavailable) {
					t.Errorf("heard %v", err)
				}
				if !s.landed || !s.ended {
					t.Errorf("landed %v, ended %v", s.landed, s.ended)
				}
				c = dialled(t, n)
				say(t, c, "again")
				if got, err := hear(c, 5); got != "again" || err != nil {
					t.Errorf("a new connection: %q, %v", got, err)
				}
			})
		})
	}
}

// TestAKilledNodeHearsNothing, and its connection ends for the server.
func TestAKilledNodeHearsNothing(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *World, n *Node) {
		c := dialled(t, n)
		locked(w, n.kill)
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, lockspec.ErrUnavailable) {
			t.Errorf("read %v", err)
		}
		if _, err := n.Dial(context.Background(), 0); !errors.Is(err, lockspec.ErrUnavailable) {
			t.Errorf("dialled: %v", err)
		}
	})
}

// deaf records nothing.
type deaf struct{}

func (deaf) Record(*history.Event) int64 { return 0 }
