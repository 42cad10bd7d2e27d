package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/interference"
	"github.com/lockcheck/lockcheck/reference/backends/relay"
)

// Started is a server that the harness started itself. Faults act on no other.
type Started interface {
	Addr() string                      // host:port; may change with a restart
	Restart(ctx context.Context) error // as a crash does: it forgets everything
	Pause() error
	Resume() error
	// Replica starts a replica of it, for as long as it is not ended.
	Replica(ctx context.Context) (addr string, end func() error, err error)
}

// Faults are the powers over a server that was started for a run. Clients reach
// the server by a relay, which counts, loses and holds back requests.
type Faults struct {
	server Started
	opts   Options
	relay  *relay.Relay
	admin  *goredis.Client

	silence interference.Silence
}

var _ interface {
	contract.TrafficCounter
	contract.Interferer
	contract.Evicter
	contract.Restarter
	contract.Stopper
	contract.Inspector
	contract.Emptier
	contract.Misdirector
	contract.Pinger
} = (*Faults)(nil)

// adminLimit bounds one call by the harness itself.
const adminLimit = 2 * time.Second

// NewFaults puts a relay before the server. The options are those of the
// clients.
func NewFaults(server Started, opts *Options) (*Faults, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Faults{server: server, opts: o}
	if f.relay, err = relay.New(server.Addr(), func() relay.Protocol { return wire{&f.opts} }); err != nil {
		return nil, err
	}
	f.admin = goredis.NewClient(&goredis.Options{
		Username: o.Username, Password: o.Password, DB: o.DB, Protocol: 2, DisableIdentity: true,
		DialTimeout: adminLimit, ReadTimeout: adminLimit, WriteTimeout: adminLimit, ContextTimeoutEnabled: true,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := net.Dialer{Timeout: adminLimit}
			return d.DialContext(ctx, "tcp", server.Addr())
		},
	})
	return f, nil
}

// Addr is where clients reach the server.
func (f *Faults) Addr() string { return f.relay.Addr() }

// Close ends the relay and its connections, not the server.
func (f *Faults) Close() error { return errors.Join(f.relay.Close(), f.admin.Close()) }

// Ping implements contract.Pinger: it asks the server itself, past the relay.
func (f *Faults) Ping(ctx context.Context) error {
	return f.silence.Ping(ctx, func(ctx context.Context) error { return f.admin.Ping(ctx).Err() })
}

// Requests implements contract.TrafficCounter.
func (f *Faults) Requests(_ context.Context, op, key string) (int, error) {
	return f.relay.Requests(op, key), nil
}

// Interfere implements contract.Interferer.
func (f *Faults) Interfere(_ context.Context, what contract.Interference, op, key string, times int) (contract.Struck, error) {
	return f.relay.Interfere(interference.Kind(what), op, key, times)
}

// Evict implements contract.Evicter. An allkeys policy takes the counter too.
func (f *Faults) Evict(ctx context.Context, key string) error {
	var locks *goredis.IntCmd
	_, err := f.admin.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		locks = p.Del(ctx, f.opts.lockKey(key))
		p.Del(ctx, f.opts.fenceKey(key))
		return nil
	})
	if err == nil && locks.Val() == 0 {
		return fmt.Errorf("%w: evict: nobody holds the key", lockspec.ErrNotHeld)
	}
	return err
}

// Restart implements contract.Restarter.
func (f *Faults) Restart(ctx context.Context) error {
	defer f.silence.Begin()()
	if err := f.server.Restart(ctx); err != nil {
		return err
	}
	f.relay.Move(f.server.Addr())
	return nil
}

// Stop implements contract.Stopper: the server's process stands still.
func (f *Faults) Stop(context.Context) error { return f.silence.Stop(f.server.Pause) }

// Continue implements contract.Stopper.
func (f *Faults) Continue(context.Context) error { return f.silence.Continue(f.server.Resume) }

// Inspect implements contract.Inspector.
func (f *Faults) Inspect(ctx context.Context, key string) ([]contract.Holder, error) {
	found, err := f.admin.MGet(ctx, f.opts.lockKey(key), f.opts.fenceKey(key)).Result()
	if err != nil {
		return nil, err
	}
	owner, held := found[0].(string)
	if !held {
		return nil, nil
	}
	h := contract.Holder{Owner: owner}
	if token, ok := found[1].(string); ok {
		_, err = fmt.Sscan(token, &h.Token)
	}
	return []contract.Holder{h}, err
}

// Seed implements contract.Inspector: the stranger is granted the key as
// anybody is, with a token, once its holder is gone.
func (f *Faults) Seed(ctx context.Context, key, owner string, lease time.Duration) error {
	name := f.opts.lockKey(key)
	_, err := f.admin.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.Del(ctx, name)
		if f.opts.Unfenced {
			p.Eval(ctx, acquirePlainScript.text, []string{name}, owner, millis(lease))
		} else {
			p.Eval(ctx, acquireScript.text, []string{name, f.opts.fenceKey(key)}, owner, millis(lease))
		}
		return nil
	})
	return err
}

// Empty implements contract.Emptier: the server knows no key and no script.
func (f *Faults) Empty(ctx context.Context) error {
	return errors.Join(f.admin.FlushAll(ctx).Err(), f.FlushScripts(ctx))
}

// FlushScripts makes the server forget every script.
func (f *Faults) FlushScripts(ctx context.Context) error { return f.admin.ScriptFlush(ctx).Err() }

// Persist makes a held key never expire, as an operator's mistake does.
func (f *Faults) Persist(ctx context.Context, key string) error {
	ok, err := f.admin.Persist(ctx, f.opts.lockKey(key)).Result()
	if err == nil && !ok {
		return fmt.Errorf("%w: persist: no lease runs on the key", lockspec.ErrNotHeld)
	}
	return err
}

// ShiftClock does what a jump of the server's clock does to the leases of this
// run: all end earlier by d, or later if it is negative. (Redis measures leases
// on the wall clock, and has no way to shift that.)
func (f *Faults) ShiftClock(ctx context.Context, d time.Duration) error {
	return f.each(ctx, func(name string) error {
		left, err := f.admin.PTTL(ctx, name).Result()
		if err != nil || left <= 0 {
			return err // it ended, or does not expire
		}
		if left -= d; left < time.Millisecond {
			return f.admin.Del(ctx, name).Err()
		}
		return f.admin.PExpire(ctx, name, left).Err()
	})
}

// each calls do with the name of every lock and counter.
func (f *Faults) each(ctx context.Context, do func(name string) error) error {
	return eachKey(ctx, f.admin, f.opts.Prefix, do)
}

// OpenAt implements contract.Misdirector.
func (f *Faults) OpenAt(ctx context.Context, what contract.Misdirection) (lockspec.Client, error) {
	o, addr, end := f.opts, f.Addr(), func() error { return nil }
	var err error
	switch what {
	case contract.WrongCredentials:
		// A server without passwords lets its default user in with any.
		o.Username, o.Password = "lockcheck-nobody", rand.Text()
	case contract.ReadOnly:
		o.Username, o.Password = "lockcheck-reader", rand.Text()
		err = f.admin.Do(ctx, "ACL", "SETUSER", o.Username, "reset", "on", ">"+o.Password, "~*", "+@read", "+ping").Err()
	case contract.AtReplica:
		addr, end, err = f.server.Replica(ctx)
	default:
		err = fmt.Errorf("%w: Redis has no clients %s", lockspec.ErrUnsupported, what)
	}
	if err != nil {
		return nil, err
	}
	c, err := open(addr, &o)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return ending{c, end}, nil
}

func open(addr string, o *Options) (lockspec.Client, error) {
	b, err := New(addr, o)
	if err != nil {
		return nil, err
	}
	e, err := reference.New(b, nil)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return e.Client(), nil
}

// ending is a client whose server ends with it.
type ending struct {
	lockspec.Client
	end func() error
}

func (c ending) Close() error { return errors.Join(c.Client.Close(), c.end()) }
