package redis

import (
	"context"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// Sweep removes every lock and every counter whose name begins with the
// options' prefix. It is for a run that had a prefix of its own: a counter that
// goes makes tokens start anew from the clock.
func (b *Backend) Sweep(ctx context.Context) error {
	return b.translate(eachKey(ctx, b.client, b.opts.Prefix, func(name string) error {
		return b.client.Unlink(ctx, name).Err()
	}))
}

// scanned is how many keys one step of a scan looks at.
const scanned = 1000

// eachKey calls do with the name of every lock and counter that begins with
// the prefix. What a pattern makes of the prefix is checked again: a star in it
// must not reach other keys.
func eachKey(ctx context.Context, c *goredis.Client, prefix string, do func(name string) error) error {
	pattern := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "^", `\^`).Replace(prefix) + "{*"
	keys := c.Scan(ctx, 0, pattern, scanned).Iterator()
	for keys.Next(ctx) {
		if name := keys.Val(); strings.HasPrefix(name, prefix+"{") {
			if err := do(name); err != nil {
				return err
			}
		}
	}
	return keys.Err()
}
