package redis

import (
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
)

// meaning is one line of the table of what a server's error means for a lock.
// All of these are told before the command did anything.
type meaning struct {
	begins  string
	kind    error
	setting string // that is wrong, as a URL has it; empty: none is
	means   string
}

// meanings is the table. BUSY is about a script that runs too long, not about
// a lock, and an outage must never be told as contention.
var meanings = []meaning{
	{"WRONGPASS", lockspec.ErrConfig, "USER:PASSWORD", "the server refuses the user or the password"},
	{"NOAUTH", lockspec.ErrConfig, "USER:PASSWORD", "the server wants a password and was given none"},
	{"NOPERM", lockspec.ErrConfig, "USER", "the user may not do what a lock needs"},
	{"DENIED", lockspec.ErrConfig, "", "the server is in protected mode"},
	{"ERR AUTH", lockspec.ErrConfig, "PASSWORD", "a password was given, and the server has none"},
	{"ERR Client sent AUTH", lockspec.ErrConfig, "PASSWORD", "a password was given, and the server has none"},
	{"ERR DB index is out of range", lockspec.ErrConfig, "DB", "there is no database of that number"},
	{"ERR invalid DB index", lockspec.ErrConfig, "DB", "there is no database of that number"},
	{"ERR SELECT is not allowed", lockspec.ErrConfig, "DB", "a cluster has database 0 only"},
	{"ERR unknown command", lockspec.ErrUnsupported, "", "the server lacks a command that a lock needs"},
	{"WRONGTYPE", lockspec.ErrConfig, "", "under the key is something that is no lock"},
	{"TOKENS", lockspec.ErrConfig, "", "the counter of the key was overwritten with a number that cannot rise"},
	{"MOVED", lockspec.ErrConfig, "HOST:PORT", "the server is one node of a cluster, which takes a client for clusters"},
	{"CROSSSLOT", lockspec.ErrConfig, "", "the keys of one lock are on two nodes"},
	{"ASK", lockspec.ErrUnavailable, "", "the key is being moved to another node"},
	{"TRYAGAIN", lockspec.ErrUnavailable, "", "the key is being moved to another node"},
	{"CLUSTERDOWN", lockspec.ErrUnavailable, "", "the cluster does not serve the key"},
	{"MASTERDOWN", lockspec.ErrUnavailable, "", "the replica has lost its primary"},
	{"LOADING", lockspec.ErrUnavailable, "", "the server is still loading its data"},
	{"BUSY ", lockspec.ErrUnavailable, "", "the server is busy with a script"},
	{"OOM", lockspec.ErrUnavailable, "", "the server is out of memory"},
	{"MISCONF", lockspec.ErrUnavailable, "", "the server cannot write to its disk"},
	{"NOREPLICAS", lockspec.ErrUnavailable, "", "the server has too few good replicas"},
	{"ERR max number of clients", lockspec.ErrUnavailable, "", "the server has too many clients"},
}

// translate says in the words of the contract why a call of the server failed.
func (b *Backend) translate(err error) error {
	if err == nil {
		return nil
	}
	var said goredis.Error
	if errors.As(err, &said) {
		return b.refusal(said)
	}
	var op *net.OpError
	if errors.Is(err, goredis.ErrPoolTimeout) || errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("%w: %w: %w", lockspec.ErrUnavailable, reference.ErrNotSent, err)
	}
	return fmt.Errorf("%w: %w", lockspec.ErrUnavailable, err)
}

// refusal is what the server's own error means.
func (b *Backend) refusal(said goredis.Error) error {
	text := said.Error()
	if strings.HasPrefix(text, "READONLY") {
		return b.readonly(said)
	}
	for _, m := range meanings {
		if strings.HasPrefix(text, m.begins) {
			return refusal.New(m.kind, m.setting, m.means, said)
		}
	}
	return fmt.Errorf("%w: %w", lockspec.ErrUnavailable, said)
}

// readonly: a server that was a primary is being failed over, and one will be
// again. One that has been a replica from the first connection on is the wrong
// server, and no retry turns it into the right one.
func (b *Backend) readonly(said goredis.Error) error {
	if b.primary.Load() {
		return refusal.New(lockspec.ErrUnavailable, "", "the server has become a replica", said)
	}
	return refusal.New(lockspec.ErrConfig, "HOST:PORT", "the server is a replica; locks are taken at its primary", said)
}
