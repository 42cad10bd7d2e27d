package simulated

import (
	"context"
	"encoding/json"
	"net"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/chaos/explore"
	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/memory"
)

// memoryServer is the memory backend's own server, spoken to in its own
// protocol over connections of the world: nothing of it is simulated but the
// network.
type memoryServer struct {
	store *memory.Store
	world *explore.World

	start sync.Once
	door  *door
}

func newMemoryServer(w *explore.World) explore.Service {
	return &memoryServer{store: memory.New(fakeclock.Real()), world: w,
		door: &door{come: make(chan net.Conn), shut: make(chan struct{})}}
}

func (s *memoryServer) Class() lockspec.Class { return lockspec.Leased }
func (s *memoryServer) Servers() int          { return 1 }
func (s *memoryServer) Faults() []string      { return []string{"restart", "evict", "server-clock"} }

// Handle answers nothing: this server is spoken to in bytes.
func (s *memoryServer) Handle(int, explore.Request) (explore.Reply, bool) {
	return explore.Reply{}, false
}

// Serve implements explore.Streamer.
func (s *memoryServer) Serve(_ int, c net.Conn) {
	s.start.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-s.world.Over()
			cancel()
		}()
		go func() { _ = memory.Serve(ctx, s.door, nil, &memory.Options{Store: s.store}) }()
	})
	s.door.enter(c, s.world.Over())
}

// line is what a world needs to know of a line of the protocol.
type line struct {
	ID      int64
	Op      explore.Op
	Key     string
	Outcome lockspec.Outcome
}

// Asked implements explore.Streamer.
func (s *memoryServer) Asked(b []byte) (explore.Request, int64) {
	var l line
	_ = json.Unmarshal(b, &l)
	return explore.Request{Op: l.Op, Key: l.Key}, l.ID
}

// Answered implements explore.Streamer.
func (s *memoryServer) Answered(b []byte) (int64, bool) {
	var l line
	_ = json.Unmarshal(b, &l)
	return l.ID, l.Outcome == lockspec.Busy
}

// Strike implements explore.Service.
func (s *memoryServer) Strike(f explore.Strike) func() {
	switch f.Fault {
	case "restart":
		s.store.Restart()
		go s.door.closeAll() // the world's mutex is held, and a connection needs it
	case "evict":
		s.store.Delete(f.Key)
	case "server-clock":
		s.store.Shift(f.By)
	}
	return nil
}

// Holders implements explore.Ledger.
func (s *memoryServer) Holders(key string) []explore.Holder {
	var all []explore.Holder
	for _, h := range s.store.Inspect(key) {
		all = append(all, explore.Holder{Owner: h.Owner, Token: h.Token})
	}
	return all
}

// Plant implements explore.Ledger.
func (s *memoryServer) Plant(key, owner string, lease time.Duration) {
	s.store.Delete(key)
	_, _ = s.store.Acquire(memory.Request{Key: key, Owner: owner, Lease: lease})
}

// door is where connections come in, as a net.Listener.
type door struct {
	come chan net.Conn
	shut chan struct{} // closed by Close
	once sync.Once

	mu   sync.Mutex
	open []net.Conn
}

func (d *door) enter(c net.Conn, over <-chan struct{}) {
	d.mu.Lock()
	d.open = append(d.open, c)
	d.mu.Unlock()
	select {
	case d.come <- c:
	case <-d.shut:
		c.Close()
	case <-over:
		c.Close()
	}
}

// closeAll breaks what is open, as a restart does.
func (d *door) closeAll() {
	d.mu.Lock()
	open := d.open
	d.open = nil
	d.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.come:
		return c, nil
	case <-d.shut:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.once.Do(func() { close(d.shut) })
	return nil
}

// Addr implements net.Listener.
func (d *door) Addr() net.Addr { return virtual{} }

type virtual struct{}

func (virtual) Network() string { return "virtual" }
func (virtual) String() string  { return "memory" }

// wired is the memory backend of a node.
type wired struct{}

func (wired) on(n *explore.Node) reference.Backend {
	o := &memory.BackendOptions{Lease: time.Second}
	if n != nil {
		o.Dial = func(ctx context.Context, _ string) (net.Conn, error) { return n.Dial(ctx, 0) }
	}
	return memory.Dial("virtual", o)
}
