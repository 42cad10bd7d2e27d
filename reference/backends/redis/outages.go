package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockcheck/lockcheck/chaos"
	"github.com/lockcheck/lockcheck/lockspec"
)

// What follows is for the scenarios of package chaos.
var _ interface {
	chaos.Reviver
	chaos.Failoverer
	chaos.Demoter
	chaos.ScriptFlusher
	chaos.Filler
	chaos.Freezer
	chaos.Crowder
	chaos.Sparer
	chaos.ClockShifter
	chaos.Persister
	chaos.Scribbler
} = (*Faults)(nil)

// nowhere is an address where no server listens.
const nowhere = "127.0.0.1 1"

// Revive implements chaos.Reviver. The server writes down all that it knows, and
// nothing comes after that, as one that writes down every command would have it.
func (f *Faults) Revive(ctx context.Context) error {
	defer f.silence.Begin()()
	if err := f.admin.Do(ctx, "CLIENT", "PAUSE", 10_000, "WRITE").Err(); err != nil {
		return err
	}
	if err := f.admin.Save(ctx).Err(); err != nil {
		return errors.Join(err, f.admin.Do(ctx, "CLIENT", "UNPAUSE").Err())
	}
	had, err := f.admin.DBSize(ctx).Result()
	if err != nil {
		return err
	}
	if err := f.server.Revive(ctx); err != nil {
		return err
	}
	f.relay.Move(f.server.Addr())
	has, err := f.admin.DBSize(ctx).Result()
	if err == nil && had > 0 && has == 0 {
		err = fmt.Errorf("%w: the server came back without what it had written down", lockspec.ErrUnsupported)
	}
	return err
}

// follower is a replica of the server.
type follower struct {
	addr   string
	client *goredis.Client
	end    func() error
}

// followLimit bounds the first synchronization.
const followLimit = 10 * time.Second

// Follow implements chaos.Failoverer.
func (f *Faults) Follow(ctx context.Context) (end func() error, err error) {
	addr, stop, err := f.server.Replica(ctx)
	if err != nil {
		return nil, err
	}
	r := &follower{addr: addr, client: f.newAdmin(func() string { return addr })}
	r.end = func() error { return errors.Join(r.client.Close(), stop()) }
	ctx, cancel := context.WithTimeout(ctx, followLimit)
	defer cancel()
	for {
		info, err := r.client.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, "master_link_status:up") && strings.Contains(info, "master_sync_in_progress:0") {
			break
		}
		if ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("the replica has not followed within %s: %w", followLimit, err), r.end())
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replica = r
	return r.end, nil
}

// Detach implements chaos.Failoverer.
func (f *Faults) Detach(ctx context.Context) error {
	return f.following().client.Do(ctx, replicaOf(nowhere)...).Err()
}

func (f *Faults) following() *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replica
}

func replicaOf(addr string) []any {
	host, port, _ := strings.Cut(addr, " ")
	return []any{"REPLICAOF", host, port}
}

// Failover implements chaos.Failoverer.
func (f *Faults) Failover(ctx context.Context, survives bool) (former string, heal func(context.Context) error, err error) {
	defer f.silence.Begin()()
	r := f.following()
	former = f.server.Addr()
	if !survives {
		if err := f.server.Kill(); err != nil {
			return "", nil, err
		}
	}
	heal = func(ctx context.Context) error {
		defer f.silence.Begin()()
		f.lead("")
		err := errors.Join(f.server.Restart(ctx), r.end())
		f.relay.Move(f.server.Addr())
		return err
	}
	if err := r.client.Do(ctx, replicaOf("NO ONE")...).Err(); err != nil {
		return "", heal, err
	}
	f.lead(r.addr)
	f.relay.Move(r.addr)
	return former, heal, nil
}

// lead makes what the harness does reach the server at addr; empty: the one that
// was started first.
func (f *Faults) lead(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = addr
}

// primary is where the server is that clients reach.
func (f *Faults) primary() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at != "" {
		return f.at
	}
	return f.server.Addr()
}

// Demote implements chaos.Demoter.
func (f *Faults) Demote(ctx context.Context) (heal func(context.Context) error, err error) {
	return func(ctx context.Context) error { return f.admin.Do(ctx, replicaOf("NO ONE")...).Err() },
		f.admin.Do(ctx, replicaOf(nowhere)...).Err()
}

// Fill implements chaos.Filler: the server may use one byte.
func (f *Faults) Fill(ctx context.Context, evicting bool) (heal func(context.Context) error, err error) {
	policy := "noeviction"
	if evicting {
		policy = "volatile-lru" // which takes what expires: locks
	}
	return func(ctx context.Context) error {
		return f.configure(ctx, "maxmemory", "0", "maxmemory-policy", "noeviction")
	}, f.configure(ctx, "maxmemory-policy", policy, "maxmemory", "1")
}

// Freeze implements chaos.Freezer: the server wants a replica before it writes,
// and has none.
func (f *Faults) Freeze(ctx context.Context) (heal func(context.Context) error, err error) {
	return func(ctx context.Context) error { return f.configure(ctx, "min-replicas-to-write", "0") },
		f.configure(ctx, "min-replicas-to-write", "1")
}

func (f *Faults) configure(ctx context.Context, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := f.admin.ConfigSet(ctx, pairs[i], pairs[i+1]).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Crowd implements chaos.Crowder: the server takes no more connections than it
// has. A connection of the harness's own stays, to end that.
func (f *Faults) Crowd(ctx context.Context) (leave func(), err error) {
	own := f.admin.Conn()
	before, err := own.ConfigGet(ctx, "maxclients").Result()
	if err == nil {
		err = own.ConfigSet(ctx, "maxclients", "1").Err()
	}
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), adminLimit)
		defer cancel()
		_ = own.ConfigSet(ctx, "maxclients", before["maxclients"]).Err()
		_ = own.Close()
	}, nil
}

// Spare implements chaos.Sparer.
func (f *Faults) Spare(ctx context.Context) (addr string, end func() error, err error) {
	return f.server.Spare(ctx)
}

// Scribble implements chaos.Scribbler: the key becomes one of another type.
func (f *Faults) Scribble(ctx context.Context, key string) (heal func(context.Context) error, err error) {
	name := f.opts.lockKey(key)
	_, err = f.admin.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.Del(ctx, name)
		p.HSet(ctx, name, "what", "no lock")
		return nil
	})
	return func(ctx context.Context) error { return f.admin.Del(ctx, name).Err() }, err
}
