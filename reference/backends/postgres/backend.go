package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// Backend is the way to one PostgreSQL. It is a [reference.Backend].
type Backend struct {
	opts    Options
	config  *pgconn.Config
	pool    *pool
	server  atomic.Pointer[Server] // that the newest connection reached
	primary atomic.Bool            // a primary was reached at this address

	mu   sync.Mutex
	held map[tenure]*hold
}

// tenure is who has, or had, what.
type tenure struct{ key, owner string }

// hold is a lock and the session that holds it.
type hold struct {
	session *session
	token   int64
}

var _ reference.Backend = (*Backend)(nil)

// New is a way to the server that a connection string of pgx names
// (postgres://…); ParseURL takes one apart. Nothing is dialled yet. An error
// matches ErrConfig and lists all that is wrong with the options.
func New(server string, opts *Options) (*Backend, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Backend{opts: o, held: map[tenure]*hold{}}
	if b.config, err = parseServer(server); err != nil {
		return nil, err
	}
	b.pool = newPool(o.PoolSize, b.connect, b.ended)
	return b, nil
}

// callLimit bounds one call of the server, dialling included.
const callLimit = 5 * time.Second

// late is what a busy machine adds to a bound.
const late = 100 * time.Millisecond

// Describe implements reference.Backend. A pause of the holder is no hazard: its
// kernel answers the keepalives, and the lock stays.
func (b *Backend) Describe() lockspec.Description {
	d := lockspec.Description{
		Name: "postgres (pgx 5)", Class: lockspec.Session,
		Hazards:  []lockspec.Hazard{lockspec.Suspend, lockspec.Partition, lockspec.Restart, lockspec.Failover},
		Features: []lockspec.Feature{lockspec.OwnerChecked, lockspec.StrictTry},
		Bounds:   lockspec.Bounds{Takeover: b.opts.takeover(), Loss: b.opts.span() + late},
	}
	if b.opts.Pooler != NoPooler {
		d.Hazards = append(d.Hazards, lockspec.Pooler)
	}
	if !b.opts.Unfenced {
		d.Features = append(d.Features, lockspec.Fencing)
	}
	return d
}

// Timing implements reference.Backend.
func (b *Backend) Timing() reference.Timing { return reference.Session(b.opts.Probe) }

// Close implements reference.Backend. What is held is free as soon as the server
// has heard of it.
func (b *Backend) Close() error {
	b.pool.close()
	return nil
}

// Attempt implements reference.Backend. Whatever goes wrong, the session is
// closed: the lock of a session outlives the statement that took it and failed.
func (b *Backend) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	// An engine counts from now: what is granted later than this is lost before
	// its first probe is answered.
	ctx, cancel := within(ctx, b.opts.span()-b.opts.Probe)
	defer cancel()
	if h := b.find(c); h != nil {
		return b.again(ctx, c, h)
	}
	end, err := b.pool.try(ctx)
	if err != nil {
		return reference.Grant{}, err
	}
	defer end()
	s, err := b.pool.take(ctx)
	if err != nil {
		return reference.Grant{}, err
	}
	sent := time.Now()
	// A session that is there answers a probe in time, or holds nothing for long.
	soon, done := within(ctx, b.opts.Probe)
	defer done()
	row, err := s.row(soon, acquireName, b.number(c))
	switch {
	case err != nil:
		b.pool.drop(s, err)
		return reference.Grant{}, translate(err)
	case row == nil:
		b.pool.put(s)
		return reference.Grant{}, lockspec.ErrBusy
	}
	h := &hold{session: s}
	if h.token, err = strconv.ParseInt(row[0], 10, 64); err != nil {
		b.pool.drop(s, err)
		return reference.Grant{}, fmt.Errorf("%w: %w", lockspec.ErrUnavailable, err)
	}
	s.heard(b.opts.span() - time.Since(sent))
	if !b.keep(c, h) {
		b.pool.drop(s, nil)
		return reference.Grant{}, fmt.Errorf("%w: %w", lockspec.ErrUnavailable, s.why)
	}
	return reference.Grant{Token: h.token, Lost: s.lost}, nil
}

// again: the owner holds the key already.
func (b *Backend) again(ctx context.Context, c reference.Claim, h *hold) (reference.Grant, error) {
	if err := b.Renew(ctx, c); err != nil {
		if b.forget(c) != nil {
			b.pool.drop(h.session, err)
		}
		return reference.Grant{}, fmt.Errorf("%w: %w", lockspec.ErrUnavailable, err)
	}
	return reference.Grant{Token: h.token, Lost: h.session.lost}, nil
}

// Renew implements reference.Backend: it asks the session's own backend whether
// it holds the lock. A session that has ended holds nothing.
func (b *Backend) Renew(ctx context.Context, c reference.Claim) error {
	h := b.find(c)
	if h == nil {
		return errNoSession
	}
	sent := time.Now()
	row, err := h.session.row(ctx, probeName, b.number(c), h.session.pid)
	switch {
	case err == nil && row != nil && row[0] == "t":
		h.session.heard(b.opts.span() - time.Since(sent))
		return nil
	case err == nil:
		h.session.close(errNotOurs)
		return &reference.LostError{Reason: reference.ConnectionLost, Err: errNotOurs}
	case !h.session.alive():
		return &reference.LostError{Reason: reference.ConnectionLost, Err: err}
	}
	return translate(err)
}

// Release implements reference.Backend. A session whose unlock is not confirmed
// is closed, and never used again: it may hold the lock.
func (b *Backend) Release(ctx context.Context, c reference.Claim) error {
	h := b.forget(c)
	if h == nil {
		return errNoSession
	}
	h.session.hush()
	row, err := h.session.row(ctx, releaseName, b.number(c))
	switch {
	case err == nil && row != nil && row[0] == "t":
		b.pool.put(h.session)
		return nil
	case err == nil:
		b.pool.drop(h.session, errNotOurs)
		return &reference.LostError{Reason: reference.ConnectionLost, Err: errNotOurs}
	}
	ended := !h.session.alive()
	b.pool.drop(h.session, err)
	if ended {
		return &reference.LostError{Reason: reference.ConnectionLost, Err: err}
	}
	return translate(err)
}

var (
	errNoSession = &reference.LostError{Reason: reference.ConnectionLost, Err: errors.New("there is no session that holds it")}
	errNotOurs   = errors.New("the session holds no such lock, or is another one behind a pooler")
)

func (b *Backend) number(c reference.Claim) string { return strconv.FormatInt(b.opts.id(c.Key), 10) }

func (b *Backend) find(c reference.Claim) *hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[tenure{c.Key, c.Owner}]
}

// keep notes who holds what; false: the session has ended meanwhile.
func (b *Backend) keep(c reference.Claim, h *hold) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !h.session.alive() {
		return false
	}
	h.session.holds = tenure{c.Key, c.Owner}
	b.held[h.session.holds] = h
	return true
}

// ended notes that a session has ended by itself. An engine that was told of the
// loss does not come back for it.
func (b *Backend) ended(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.held[s.holds]; h != nil && h.session == s {
		delete(b.held, s.holds)
		b.pool.drop(s, nil)
	}
}

func (b *Backend) forget(c reference.Claim) *hold {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := tenure{c.Key, c.Owner}
	h := b.held[at]
	delete(b.held, at)
	return h
}
