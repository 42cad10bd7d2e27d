package redis

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// Backend is the way to one Redis or Valkey. It is a [reference.Backend].
type Backend struct {
	opts    Options
	client  *goredis.Client // for what is no call of a lock
	lines   *lines
	server  atomic.Pointer[Server] // that the newest connection reached
	probing atomic.Bool
	primary atomic.Bool // a primary was reached at this address
}

var _ reference.Prompt = (*Backend)(nil)

// New is a way to the server at addr, host:port. Nothing is dialled yet. An
// error matches ErrConfig and lists all that is wrong with the options.
func New(addr string, opts *Options) (*Backend, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Backend{opts: o}
	client := goredis.Options{
		Addr: addr, Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLS, Dialer: o.Dial,
		PoolSize: o.PoolSize, DialTimeout: callLimit, ReadTimeout: callLimit, WriteTimeout: callLimit,
		ContextTimeoutEnabled: true,
		// Whoever sends a request again behind the engine's back finds his own
		// grant and takes it for another's.
		MaxRetries: -1, DialerRetries: 1,
		// A lock needs none of what a client tells of itself, nor its moves.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		OnConnect:                b.greet,
	}
	b.client, b.lines = goredis.NewClient(&client), newLines(client)
	return b, nil
}

// callLimit bounds one call of the server, dialling included.
const callLimit = 5 * time.Second

// takeover is what a free key needs to become obtainable. Redis looks at the
// expiry whenever a key is used, so this is for a busy machine.
const takeover = 100 * time.Millisecond

// Describe implements reference.Backend.
func (b *Backend) Describe() lockspec.Description {
	hazards, _ := b.opts.Class.Ceiling()
	d := lockspec.Description{
		Name: "redis (go-redis " + goredis.Version() + ")", Class: b.opts.Class, Hazards: hazards,
		Features: []lockspec.Feature{lockspec.OwnerChecked, lockspec.StrictTry},
		Bounds:   lockspec.Bounds{LeaseMin: time.Millisecond, LeaseMax: 24 * time.Hour, Takeover: takeover},
	}
	if !b.opts.Unfenced {
		d.Features = append(d.Features, lockspec.Fencing)
	}
	return d
}

// Timing implements reference.Backend.
func (b *Backend) Timing() reference.Timing { return reference.Expiring(b.opts.Lease) }

// Close implements reference.Backend.
func (b *Backend) Close() error { return errors.Join(b.lines.close(), b.client.Close()) }

// Prompt implements reference.Prompt.
func (b *Backend) Prompt() {}

// Attempt implements reference.Backend.
func (b *Backend) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	attempt := b.attemptFenced
	if b.opts.Unfenced {
		attempt = b.attemptPlain
	}
	token, err := on(ctx, b, func(ctx context.Context, server *goredis.Conn) (int64, error) { return attempt(ctx, server, c) })
	if err != nil {
		return reference.Grant{}, err
	}
	b.primary.Store(true)
	return reference.Grant{Token: token, Lease: c.Lease}, nil
}

func (b *Backend) attemptFenced(ctx context.Context, server *goredis.Conn, c reference.Claim) (token int64, err error) {
	v, err := b.run(ctx, server, acquireScript, []string{b.opts.lockKey(c.Key), b.opts.fenceKey(c.Key)}, c.Owner, millis(c.Lease))
	if err == nil {
		token, err = goredis.NewCmdResult(v, nil).Int64()
	}
	return token, b.busy(err)
}

// attemptPlain is SET NX. With GET it answers who holds the key instead of
// nothing, so that a grant whose reply was lost is known for the caller's own.
// Its lease then starts anew.
func (b *Backend) attemptPlain(ctx context.Context, server *goredis.Conn, c reference.Claim) (int64, error) {
	if s := b.server.Load(); s == nil || !s.SetNXGet || b.opts.Wait > 0 {
		_, err := b.run(ctx, server, acquirePlainScript, []string{b.opts.lockKey(c.Key)}, c.Owner, millis(c.Lease))
		return 0, b.busy(err)
	}
	holder, err := server.Do(ctx, "SET", b.opts.lockKey(c.Key), c.Owner, "NX", "GET", "PX", millis(c.Lease)).Text()
	switch {
	case errors.Is(err, goredis.Nil):
		return 0, nil
	case err != nil:
		return 0, b.translate(err)
	case holder != c.Owner:
		return 0, lockspec.ErrBusy
	}
	if err := b.renew(ctx, server, c); err != nil {
		return 0, lockspec.ErrUnavailable // it ended in between; the next attempt will tell
	}
	return 0, nil
}

// busy is nil where the key was granted.
func (b *Backend) busy(err error) error {
	if errors.Is(err, goredis.Nil) {
		return lockspec.ErrBusy
	}
	return b.translate(err)
}

// Renew implements reference.Backend.
func (b *Backend) Renew(ctx context.Context, c reference.Claim) error {
	_, err := on(ctx, b, func(ctx context.Context, server *goredis.Conn) (int, error) { return 0, b.renew(ctx, server, c) })
	return err
}

func (b *Backend) renew(ctx context.Context, server *goredis.Conn, c reference.Claim) error {
	if s := b.server.Load(); b.opts.Renew == RenewIFEQ && b.opts.Wait == 0 && s != nil && s.IFEQ {
		err := server.Do(ctx, "SET", b.opts.lockKey(c.Key), c.Owner, "IFEQ", c.Owner, "PX", millis(c.Lease)).Err()
		if errors.Is(err, goredis.Nil) {
			return b.lost(ctx, server, b.opts.lockKey(c.Key))
		}
		if !b.outdated(err, "ERR syntax") {
			return b.translate(err)
		}
	}
	v, err := b.run(ctx, server, renewScript, []string{b.opts.lockKey(c.Key)}, c.Owner, millis(c.Lease))
	return b.held(v, err)
}

// Release implements reference.Backend.
func (b *Backend) Release(ctx context.Context, c reference.Claim) error {
	_, err := on(ctx, b, func(ctx context.Context, server *goredis.Conn) (int, error) { return 0, b.release(ctx, server, c) })
	return err
}

func (b *Backend) release(ctx context.Context, server *goredis.Conn, c reference.Claim) error {
	name := b.opts.lockKey(c.Key)
	if args := b.server.Load().deletes(b.opts.Release, name, c.Owner); args != nil {
		n, err := server.Do(ctx, args...).Int()
		if !b.outdated(err, "ERR unknown command") {
			if err == nil && n < 1 {
				return b.lost(ctx, server, name)
			}
			return b.translate(err)
		}
	}
	// That a deletion has reached the replicas is worth no wait: until it has,
	// the key is busy and no more.
	v, err := server.EvalSha(ctx, releaseScript.sum, []string{name}, c.Owner).Result()
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		v, err = server.Eval(ctx, releaseScript.text, []string{name}, c.Owner).Result()
	}
	return b.held(v, err)
}

// outdated says whether the server no longer has what its predecessor at this
// address had; from now on it is asked for nothing newer.
func (b *Backend) outdated(err error, begins string) bool {
	if err == nil || !goredis.HasErrorPrefix(err, begins) && !goredis.HasErrorPrefix(err, begins[len("ERR "):]) {
		return false
	}
	b.server.Store(nil)
	return true
}

// held reads the answer of a script that checks the owner.
func (b *Backend) held(v any, err error) error {
	if err != nil {
		return b.translate(err)
	}
	switch v {
	case int64(1):
		return nil
	case int64(-1):
		return &reference.LostError{Reason: reference.TakenOver}
	}
	return &reference.LostError{Reason: reference.Expired}
}

// lost is the error of an owner whom a native command found not to hold the
// key. Such a command does not say whether another does.
func (b *Backend) lost(ctx context.Context, server *goredis.Conn, name string) error {
	n, err := server.Exists(ctx, name).Result()
	switch {
	case err != nil:
		return lockspec.ErrNotHeld
	case n > 0:
		return &reference.LostError{Reason: reference.TakenOver}
	}
	return &reference.LostError{Reason: reference.Expired}
}

// millis rounds up: the service must not promise less than the holder relies on.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
