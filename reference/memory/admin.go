package memory

import (
	"context"
	"net"
	"time"
)

// Admin speaks to a server's admin port. Each call has a connection of its
// own, so it is safe for concurrent use and needs no closing. A call that
// fails says so with an error of the contract, ErrUnavailable if the server is
// not there.
type Admin struct {
	Addr string
}

// Match says which requests of the data port are meant. Empty fields match all.
type Match struct {
	Op  string // acquire, renew, release, delete, ping
	Key string
}

// Count is how many requests the data port has read.
func (a Admin) Count(ctx context.Context, m Match) (int, error) {
	r, err := a.call(ctx, message{Op: "count", Of: m.Op, Key: m.Key})
	return r.Count, err
}

// Inject puts a fault in the way of the next requests that match: times of
// them, 0 meaning one and -1 all until it is lifted.
func (a Admin) Inject(ctx context.Context, f Fault, m Match, times int) (id int64, err error) {
	r, err := a.call(ctx, message{Op: "fault", Fault: string(f), Of: m.Op, Key: m.Key, Times: times})
	return r.FaultID, err
}

// Await waits until a fault has struck; ErrTimeout: it did not within wait.
func (a Admin) Await(ctx context.Context, id int64, wait time.Duration) error {
	return a.do(ctx, message{Op: "await", FaultID: id, Wait: int64(wait)})
}

// Lift ends a fault and lets go what it holds back; id 0 means every fault.
// ErrNotHeld: there is no such fault.
func (a Admin) Lift(ctx context.Context, id int64) error {
	return a.do(ctx, message{Op: "lift", FaultID: id})
}

// Inspect tells who holds a key; nobody: nil.
func (a Admin) Inspect(ctx context.Context, key string) ([]State, error) {
	r, err := a.call(ctx, message{Op: "inspect", Key: key})
	var all []State
	for _, h := range r.Holders {
		all = append(all, State{h.Owner, h.Token, h.Mode, h.Count, time.Duration(h.Left)})
	}
	return all, err
}

// Seed gives a key to an owner, whoever held it.
func (a Admin) Seed(ctx context.Context, key, owner string, lease time.Duration) (token int64, err error) {
	r, err := a.call(ctx, message{Op: "seed", Key: key, Owner: owner, Lease: int64(lease)})
	return r.Token, err
}

// Evict frees a key, whoever holds it. ErrNotHeld: nobody did.
func (a Admin) Evict(ctx context.Context, key string) error {
	return a.do(ctx, message{Op: "evict", Key: key})
}

// Restart makes the server forget every key and close the data port's
// connections. Tokens go on rising.
func (a Admin) Restart(ctx context.Context) error { return a.do(ctx, message{Op: "restart"}) }

// Shift makes every lease end earlier by d, as a jump of the server's clock does.
func (a Admin) Shift(ctx context.Context, d time.Duration) error {
	return a.do(ctx, message{Op: "shift", By: int64(d)})
}

// Stall makes the data port answer nothing until Resume. Leases go on ending.
func (a Admin) Stall(ctx context.Context) error { return a.do(ctx, message{Op: "stall"}) }

// Resume ends Stall: what was asked meanwhile is applied and answered.
func (a Admin) Resume(ctx context.Context) error { return a.do(ctx, message{Op: "resume"}) }

func (a Admin) do(ctx context.Context, m message) error {
	_, err := a.call(ctx, m)
	return err
}

func (a Admin) call(ctx context.Context, m message) (message, error) {
	r := newRemote(a.Addr, nil)
	defer r.Close()
	return r.call(ctx, m)
}

// Monitor asks a server's admin port for signs of life, over one connection
// that is kept: whoever asks many times a second must not leave as many behind.
type Monitor struct{ r *remote }

// NewMonitor dials nothing yet.
func NewMonitor(admin string) Monitor { return Monitor{newRemote(admin, nil)} }

// Ping returns once the server has answered. No fault of the data port delays it.
func (m Monitor) Ping(ctx context.Context) error {
	_, err := m.r.call(ctx, message{Op: "ping"})
	return err
}

// Close gives the connection up.
func (m Monitor) Close() error { return m.r.Close() }

// Listen opens the two listeners of a server on loopback, on ports that are free.
func Listen() (data, admin net.Listener, err error) {
	if data, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, nil, err
	}
	if admin, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		data.Close()
		return nil, nil, err
	}
	return data, admin, nil
}
