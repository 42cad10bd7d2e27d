package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Options are the settings of a way to a Redis or Valkey. The zero value of
// each field stands for the default that its comment names.
type Options struct {
	Username, Password string
	DB                 int
	// TLS makes connections encrypted; default: they are not.
	TLS *tls.Config
	// Prefix begins the name of every key; default "lock:".
	Prefix string
	// Lease is asked for where the engine names none; default 30 s.
	Lease time.Duration
	// Unfenced leaves the counter out: no tokens, and one plain SET instead of
	// a script.
	Unfenced bool
	// Class is what the deployment is: lease, the default, or
	// replicated-lease where asynchronous replicas may take over.
	Class lockspec.Class
	// Wait is how many replicas must confirm a grant and a renewal; default 0.
	// It makes a loss by failover rarer and does not exclude it.
	Wait int
	// WaitTimeout bounds that; default 100 ms.
	WaitTimeout time.Duration
	// Renew chooses how a renewal is sent; default RenewLua.
	Renew RenewBy
	// Release chooses how a release is sent; default ReleaseAuto.
	Release ReleaseBy
	// PoolSize is the most connections; default 32.
	PoolSize int
	// Warn is told, once for each server, what about it endangers locks;
	// default: nobody is.
	Warn func(text string)
	// Dial makes a connection; default: TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	_ struct{}
}

// RenewBy is how a renewal is sent.
type RenewBy string

// The ways of renewing.
const (
	// RenewLua is a script with PEXPIRE, which every server takes, even one
	// that is out of memory.
	RenewLua RenewBy = "lua"
	// RenewIFEQ is SET … IFEQ where the server has it (Redis 8.4, Valkey 8.1).
	// It is refused by a server that is out of memory, as every SET is.
	RenewIFEQ RenewBy = "ifeq"
)

// ReleaseBy is how a release is sent.
type ReleaseBy string

// The ways of releasing.
const (
	// ReleaseAuto is DELIFEQ where the server has it (Valkey 9.0), else a script.
	ReleaseAuto ReleaseBy = "auto"
	// ReleaseLua is always the script.
	ReleaseLua ReleaseBy = "lua"
	// ReleaseDELEX is DELEX … IFEQ where the server has it (Redis 8.4), else as
	// ReleaseAuto. No such server has been tried yet, so it is not the default.
	ReleaseDELEX ReleaseBy = "delex"
)

// The defaults.
const (
	DefaultPrefix      = "lock:"
	DefaultLease       = 30 * time.Second
	DefaultWaitTimeout = 100 * time.Millisecond
	DefaultPoolSize    = 32
)

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	orDefault(&c.Prefix, DefaultPrefix)
	orDefault(&c.Lease, DefaultLease)
	orDefault(&c.Class, lockspec.Leased)
	orDefault(&c.WaitTimeout, DefaultWaitTimeout)
	orDefault(&c.Renew, RenewLua)
	orDefault(&c.Release, ReleaseAuto)
	orDefault(&c.PoolSize, DefaultPoolSize)
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	return c, c.validate()
}

func (o *Options) validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(o.DB >= 0, "DB %d is negative", o.DB)
	check(!strings.ContainsAny(o.Prefix, "{}"), "prefix %q holds a brace, which would decide a cluster's slot", o.Prefix)
	check(o.Class == lockspec.Leased || o.Class == lockspec.ReplicatedLease,
		"class %q is neither %s nor %s", o.Class, lockspec.Leased, lockspec.ReplicatedLease)
	check(o.Wait >= 0, "wait for %d replicas", o.Wait)
	check(o.WaitTimeout > 0, "wait timeout %v is not positive", o.WaitTimeout)
	check(o.Renew == RenewLua || o.Renew == RenewIFEQ, "renew %q is neither %s nor %s", o.Renew, RenewLua, RenewIFEQ)
	check(o.Release == ReleaseAuto || o.Release == ReleaseLua || o.Release == ReleaseDELEX,
		"release %q is none of %s, %s, %s", o.Release, ReleaseAuto, ReleaseLua, ReleaseDELEX)
	check(o.PoolSize > 0, "pool size %d is not positive", o.PoolSize)
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", lockspec.ErrConfig, errors.Join(wrong...))
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
