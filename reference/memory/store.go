package memory

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockcheck/lockcheck/fakeclock"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// Store holds keys for owners, each for a time. It is safe for concurrent use.
// A key that nobody holds takes no memory, once the store has come by it.
type Store struct {
	clock fakeclock.Clock

	mu      sync.Mutex
	keys    map[string]*entry
	sweepAt int   // number of keys at which expired ones are looked for
	last    int64 // token
}

type entry struct {
	holders []holder
	writer  time.Time // a writer that waits was refused and comes back before this
}

type holder struct {
	owner   string
	token   int64
	mode    lockspec.Mode
	count   int
	expires time.Time
}

// Request is one try to take a key.
type Request struct {
	Key   string
	Owner string // not empty; who releases and renews gives the same
	Lease time.Duration
	Mode  lockspec.Mode // Read shares with other readers
	Count int           // permits; 0 and 1 are the same
	Limit int           // permits that the key has; 0 and 1: a mutex
	Waits bool          // comes back if it is refused
}

// New is an empty store whose leases end on the clock; nil: the real one.
func New(clock fakeclock.Clock) *Store {
	if clock == nil {
		clock = fakeclock.Real()
	}
	return &Store{clock: clock, sweepAt: minSweep}
}

const minSweep = 64

// writerPatience is how long a writer that waits keeps new readers out:
// a little longer than the longest pause between two tries of an engine.
const writerPatience = reference.DefaultMaxRetryDelay + 500*time.Millisecond

// Acquire grants a key or answers ErrBusy. An owner that holds it is granted
// it again: the same token, the lease from now on. ErrConfig: the request
// makes no sense.
func (s *Store) Acquire(r Request) (token int64, err error) {
	r.Count, r.Limit = max(r.Count, 1), max(r.Limit, 1)
	if err := r.validate(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	e := s.live(r.Key, now)
	if h := e.of(r.Owner); h != nil {
		h.expires = now.Add(r.Lease)
		return h.token, nil
	}
	if !e.admits(r, now) {
		if r.Waits && len(e.holders) > 0 && r.Mode != lockspec.Read && e.holders[0].mode == lockspec.Read {
			e.writer = now.Add(writerPatience)
		}
		return 0, lockspec.ErrBusy
	}
	if r.Mode != lockspec.Read {
		e.writer = time.Time{}
	}
	s.last = max(s.last+1, s.clock.Wall().UnixMicro())
	e.holders = append(e.holders, holder{r.Owner, s.last, r.Mode, r.Count, now.Add(r.Lease)})
	s.keep(r.Key, e, now)
	return s.last, nil
}

func (r Request) validate() error {
	switch {
	case r.Owner == "":
		return fmt.Errorf("%w: no owner", lockspec.ErrConfig)
	case r.Lease <= 0:
		return fmt.Errorf("%w: lease %v is not positive", lockspec.ErrConfig, r.Lease)
	case r.Count > r.Limit:
		return fmt.Errorf("%w: %d permits of %d", lockspec.ErrUnsupported, r.Count, r.Limit)
	}
	return nil
}

// Renew makes the owner's lease start anew. A *reference.LostError: the owner
// is no holder, because the key expired, or another has it.
func (s *Store) Renew(key, owner string, lease time.Duration) error {
	if lease <= 0 {
		return fmt.Errorf("%w: lease %v is not positive", lockspec.ErrConfig, lease)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	e := s.live(key, now)
	h := e.of(owner)
	if h == nil {
		return e.refusal()
	}
	h.expires = now.Add(lease)
	return nil
}

// Release frees what the owner holds. Its errors are Renew's.
func (s *Store) Release(key, owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	e := s.live(key, now)
	if e.of(owner) == nil {
		return e.refusal()
	}
	e.holders = slices.DeleteFunc(e.holders, func(h holder) bool { return h.owner == owner })
	s.keep(key, e, now)
	return nil
}

// Delete frees a key whoever holds it, and says whether somebody did. It is
// what a release without an owner check does, and an eviction.
func (s *Store) Delete(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.live(key, s.clock.Now())
	s.drop(key)
	return len(e.holders) > 0
}

// Restart forgets every key, as a server without persistence does. Tokens go
// on rising.
func (s *Store) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.sweepAt = nil, minSweep
}

// Shift makes every lease end earlier by d, as a jump of the store's clock
// does; a negative d, later.
func (s *Store) Shift(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.keys {
		for i := range e.holders {
			e.holders[i].expires = e.holders[i].expires.Add(-d)
		}
	}
}

// State is what the store knows of a holder.
type State struct {
	Owner string
	Token int64
	Mode  lockspec.Mode
	Count int
	Left  time.Duration // of its lease
}

// Inspect tells who holds a key; nobody: nil.
func (s *Store) Inspect(key string) []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	var all []State
	for _, h := range s.live(key, now).holders {
		all = append(all, State{h.owner, h.token, h.mode, h.count, h.expires.Sub(now)})
	}
	return all
}

// Len is the number of keys that are held.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(s.clock.Now())
	return len(s.keys)
}

// live is the entry of a key without what has expired; a new one if there is none.
func (s *Store) live(key string, now time.Time) *entry {
	e := s.keys[key]
	if e == nil {
		return &entry{}
	}
	e.expire(now)
	if e.idle(now) {
		s.drop(key)
	}
	return e
}

// keep puts an entry in, or takes it out if nobody needs it.
func (s *Store) keep(key string, e *entry, now time.Time) {
	if e.idle(now) {
		s.drop(key)
		return
	}
	if s.keys == nil {
		s.keys = make(map[string]*entry)
	}
	s.keys[key] = e
	if len(s.keys) >= s.sweepAt {
		s.sweep(now)
	}
}

// drop gives the memory of a large map back once it is empty.
func (s *Store) drop(key string) {
	delete(s.keys, key)
	if len(s.keys) == 0 && s.sweepAt > minSweep {
		s.keys, s.sweepAt = nil, minSweep
	}
}

// sweep takes expired keys out. It runs when their number has doubled, so it
// costs each acquisition a constant.
func (s *Store) sweep(now time.Time) {
	for key, e := range s.keys {
		if e.expire(now); e.idle(now) {
			delete(s.keys, key)
		}
	}
	s.sweepAt = max(minSweep, 2*len(s.keys))
}

func (e *entry) expire(now time.Time) {
	e.holders = slices.DeleteFunc(e.holders, func(h holder) bool { return !now.Before(h.expires) })
}

func (e *entry) idle(now time.Time) bool { return len(e.holders) == 0 && !now.Before(e.writer) }

func (e *entry) of(owner string) *holder {
	for i := range e.holders {
		if e.holders[i].owner == owner {
			return &e.holders[i]
		}
	}
	return nil
}

// admits says whether the request fits beside the holders. A reader fits
// beside readers, but not before a writer that waits: else readers who come
// and go would starve it.
func (e *entry) admits(r Request, now time.Time) bool {
	taken := 0
	for _, h := range e.holders {
		if (h.mode == lockspec.Read) != (r.Mode == lockspec.Read) {
			return false
		}
		taken += h.count
	}
	if r.Mode == lockspec.Read {
		return !now.Before(e.writer)
	}
	return taken+r.Count <= r.Limit
}

func (e *entry) refusal() error {
	if len(e.holders) > 0 {
		return &reference.LostError{Reason: reference.TakenOver}
	}
	return &reference.LostError{Reason: reference.Expired}
}
