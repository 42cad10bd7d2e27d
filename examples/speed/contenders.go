package main

import (
	"context"
	"errors"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/redis"
)

// contenders are all that are compared; the bare commands come first. Each has
// connections of its own, as many as the engine would have.
func contenders(addr string) ([]contender, error) {
	engine, err := newEngine(addr)
	if err != nil {
		return nil, err
	}
	return []contender{bare(addr), engine, withRedsync(addr), withRedislock(addr)}, nil
}

func client(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, PoolSize: redis.DefaultPoolSize})
}

// deleteOwn is the least that a release can be: one that frees no other's key.
const deleteOwn = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

// bare is the commands that a lock cannot do without.
func bare(addr string) contender {
	c := client(addr)
	script := goredis.NewScript(deleteOwn)
	return contender{"bare commands", func(ctx context.Context, key string) error {
		if ok, err := c.SetNX(ctx, key, "owner", lease).Result(); err != nil || !ok {
			return errors.Join(err, taken(ok))
		}
		n, err := script.Run(ctx, c, []string{key}, "owner").Int()
		return errors.Join(err, taken(n == 1))
	}, c.Close}
}

func taken(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("a free key is taken")
}

func newEngine(addr string) (contender, error) {
	b, err := redis.New(addr, &redis.Options{Unfenced: true})
	if err != nil {
		return contender{}, err
	}
	e, err := reference.New(b, &reference.Options{Lease: lease})
	if err != nil {
		return contender{}, err
	}
	return contender{"engine", func(ctx context.Context, key string) error {
		l, err := e.TryAcquire(ctx, key, nil)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}, e.Close}, nil
}

func withRedsync(addr string) contender {
	c := client(addr)
	r := redsync.New(redsyncgoredis.NewPool(c))
	return contender{"redsync", func(ctx context.Context, key string) error {
		m := r.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(1))
		if err := m.TryLockContext(ctx); err != nil {
			return err
		}
		_, err := m.UnlockContext(ctx)
		return err
	}, c.Close}
}

func withRedislock(addr string) contender {
	c := client(addr)
	r := redislock.New(c)
	return contender{"redislock", func(ctx context.Context, key string) error {
		l, err := r.Obtain(ctx, key, lease, nil)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}, c.Close}
}
