package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Where a script would end without a write, it reads the lock with GETEX, which
// counts as one (Redis 6.2): a replica refuses it. With GET alone, a primary
// that was demoted would answer from data that may be old or half loaded, that a
// lock is busy, or lost. No acquisition writes before its SET: a server that is
// out of memory lets a script go on that has written.

// script is one Lua script and the name under which a server caches it.
type script struct {
	text, sum string
	op        string // of the lock
}

//go:embed acquire.lua
var acquireText string

//go:embed acquire_plain.lua
var acquirePlainText string

//go:embed renew.lua
var renewText string

//go:embed release.lua
var releaseText string

var (
	acquireScript      = newScript("acquire", acquireText)
	acquirePlainScript = newScript("acquire", acquirePlainText)
	renewScript        = newScript("renew", renewText)
	releaseScript      = newScript("release", releaseText)
)

func scripts() []script {
	return []script{acquireScript, acquirePlainScript, renewScript, releaseScript}
}

func newScript(op, text string) script { return script{text, sum(text), op} }

func sum(text string) string {
	s := sha1.Sum([]byte(text)) // the name of a script is its SHA-1: no secret hangs on it
	return hex.EncodeToString(s[:])
}

// run runs the script by its name, and with its text where the server has
// forgotten it: after SCRIPT FLUSH, a restart, a failover. Trying again is
// safe, because what is not known was not run.
//
// With a number of replicas to wait for, WAIT follows on the same connection:
// on another it would wait for nobody's writes, and inside a script it returns
// at once (https://redis.io/docs/latest/commands/wait/).
func (b *Backend) run(ctx context.Context, server *goredis.Conn, s script, keys []string, args ...any) (any, error) {
	if b.opts.Wait == 0 {
		v, err := server.EvalSha(ctx, s.sum, keys, args...).Result()
		if goredis.HasErrorPrefix(err, "NOSCRIPT") {
			v, err = server.Eval(ctx, s.text, keys, args...).Result()
		}
		return v, err
	}
	v, err := b.replicated(ctx, server, func(p goredis.Pipeliner) *goredis.Cmd { return p.EvalSha(ctx, s.sum, keys, args...) })
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		v, err = b.replicated(ctx, server, func(p goredis.Pipeliner) *goredis.Cmd { return p.Eval(ctx, s.text, keys, args...) })
	}
	return v, err
}

// errNotReplicated is what fewer replicas than wanted make of a write. It
// stands on the primary all the same.
var errNotReplicated = errors.New("too few replicas confirmed the write")

// replicated sends a command and waits for the replicas. What was refused need
// not be replicated.
func (b *Backend) replicated(ctx context.Context, server *goredis.Conn, send func(goredis.Pipeliner) *goredis.Cmd) (any, error) {
	p := server.Pipeline()
	cmd := send(p)
	wait := p.Do(ctx, "WAIT", b.opts.Wait, max(1, int64(b.opts.WaitTimeout/time.Millisecond)))
	_, execErr := p.Exec(ctx)
	v, err := cmd.Result()
	if err != nil {
		return v, err
	}
	if n, ok := v.(int64); ok && n < 1 {
		return v, nil
	}
	confirmed, err := wait.Int()
	switch {
	case err != nil:
		return nil, errors.Join(err, execErr)
	case confirmed < b.opts.Wait:
		return nil, errNotReplicated
	}
	return v, nil
}
