package explore

import (
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
)

// Op is what a request asks of a simulated service.
type Op string

// The operations.
const (
	Acquire Op = "acquire"
	Renew   Op = "renew" // of a session: a ping
	Release Op = "release"
	Delete  Op = "delete" // free the key whoever holds it: what a careless client sends
)

// Request is a message from a node to a server.
type Request struct {
	Op    Op
	Key   string
	Owner string // who asks; a session's name where a session holds
	Lease time.Duration
}

// Reply is a server's answer.
type Reply struct {
	// Outcome is OK; Busy of an acquire; NotHeld of a renewal or release of who
	// is no holder.
	Outcome lockspec.Outcome
	Taken   bool // NotHeld, and another holds the key
	Token   int64
	Lease   time.Duration // granted
}

// Service is what the nodes of a world talk to. Its servers answer a request at
// the moment it arrives, one at a time. A service is made by the world, which
// calls it with its own mutex held: it may not block.
type Service interface {
	// Class is what kind of lock its protocol makes.
	Class() lockspec.Class
	// Servers is how many there are; requests are addressed 0 … n-1.
	Servers() int
	// Handle answers a request that has arrived at a server. up is false for
	// one that is down: nobody answers.
	Handle(server int, q Request) (r Reply, up bool)
	// Faults names the faults that the service itself can suffer.
	Faults() []string
	// Strike makes it suffer one, and returns how that ends; nil: at once.
	Strike(s Strike) (heal func())
}

// Strike is a fault of a service.
type Strike struct {
	Fault  string
	Server int // which server, where there are several
	Key    string
	By     time.Duration // of a server's clock: how far it jumps
}

// table is the keys of one server: who holds what until when. It is the state
// that every leasing service has.
type table struct {
	keys  map[string]entry
	last  int64 // token
	ahead time.Duration

	version int64 // of the state
	timed   bool  // a token is at least the time in microseconds
}

type entry struct {
	owner string
	token int64
	until time.Duration // on the server's clock
	lease time.Duration
}

func (t *table) live(key string, now time.Duration) (entry, bool) {
	e, ok := t.keys[key]
	if ok && now+t.ahead >= e.until {
		return entry{}, false
	}
	return e, ok
}

// handle is the protocol of a lease: an owner that holds is granted again, a
// renewal and a release are for the owner only.
func (t *table) handle(q Request, now time.Duration) Reply {
	t.version++
	e, held := t.live(q.Key, now)
	switch q.Op {
	case Acquire:
		if held && e.owner != q.Owner {
			return Reply{Outcome: lockspec.Busy}
		}
		if !held {
			t.last++
			if t.timed {
				t.last = max(t.last, now.Microseconds())
			}
			e = entry{owner: q.Owner, token: t.last}
		}
		e.until, e.lease = now+t.ahead+q.Lease, q.Lease
		t.put(q.Key, e)
		return Reply{Outcome: lockspec.OK, Token: e.token, Lease: q.Lease}
	case Delete:
		delete(t.keys, q.Key)
		return Reply{Outcome: lockspec.OK}
	}
	if !held || e.owner != q.Owner {
		return Reply{Outcome: lockspec.NotHeld, Taken: held}
	}
	if q.Op == Renew {
		e.until, e.lease = now+t.ahead+q.Lease, q.Lease
		t.put(q.Key, e)
	} else {
		delete(t.keys, q.Key)
	}
	return Reply{Outcome: lockspec.OK, Token: e.token, Lease: q.Lease}
}

func (t *table) put(key string, e entry) {
	if t.keys == nil {
		t.keys = make(map[string]entry, 1)
	}
	t.keys[key] = e
}

// held is who holds the key.
func (t *table) held(key string, now time.Duration) []contract.Holder {
	e, ok := t.live(key, now)
	if !ok {
		return nil
	}
	return []contract.Holder{{Owner: e.owner, Token: e.token}}
}

// plant makes a stranger the key's holder.
func (t *table) plant(key, owner string, lease, now time.Duration) {
	delete(t.keys, key)
	t.handle(Request{Op: Acquire, Key: key, Owner: owner, Lease: lease}, now)
}
