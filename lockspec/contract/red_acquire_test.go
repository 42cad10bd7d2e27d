package contract_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference"
)

// redAcquire are the faults of group A.
func redAcquire() []red {
	return []red{
		{"A01", "a handle that says lost at once", "contract/outcome", leaseBy(func(_ *lab, _ lockspec.Request, l powers) holding {
			return holding{powers: l, held: func(context.Context) error { return lockspec.ErrLost }}
		}), nil},
		{"A02", "a held key is granted again", "overlap/", backendBy(grantsHeld(1)), nil},
		{"A02", "a held key is no answer but a timeout", "contract/outcome", answersInstead(lockspec.ErrBusy, lockspec.ErrTimeout), nil},
		{"A03", "a client is granted what it holds", "contract/outcome", acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			held := map[string]lockspec.Lease{}
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				l, err := next(ctx, r)
				if errors.Is(err, lockspec.ErrBusy) && held[r.Key] != nil {
					return held[r.Key], nil
				}
				held[r.Key] = l
				return l, err
			}
		}), nil},
		{"A04", "the process is the owner", "contract/outcome", backendBy(ownerIsProcess), nil},
		{"A05", "all keys are one", "contract/free-key-refused", keysBy(func(k string) string {
			return k[:strings.LastIndex(k, "/")]
		}), nil},
		{"A06", "check, then set", "overlap/", backendBy(checkThenSet()), nil},
		{"A06", "all who race are turned away", "contract/no-winner", answersInstead(nil, lockspec.ErrBusy), nil},
		{"A06", "who loses a race is told of an error", "contract/outcome", answersInstead(lockspec.ErrBusy, lockspec.ErrConfig), nil},
		{"A07", "a release ends the session, with all that it holds", "contract/outcome", backendBy(releasesAll), nil},
		{"A07", "the connection is the owner", "overlap/", backendBy(ownerIsProcess), nil},
		{"A09", "a try waits", "contract/slow-try", acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				r.Wait = lockspec.NoLimit
				return next(ctx, r)
			}
		}), nil},
		{"A10", "one in ten gets in beside the holder", "overlap/", backendBy(grantsHeld(10)), nil},
		{"A11", "whoever finds the table being made fails", "contract/outcome", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				if firstUse.Add(1)%20 == 7 {
					return reference.Grant{}, fmt.Errorf("%w: table exists", lockspec.ErrConfig)
				}
				return b.Attempt(ctx, c)
			}}
		}), nil},
		{"A12", "what is there is overwritten", "contract/foreign-content", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				_ = l.Seed(ctx, c.Key, "me", time.Minute)
				return reference.Grant{}, lockspec.ErrBusy
			}}
		}), nil},
		{"A13", "the service keeps a key for longer than it says", "liveness/takeover", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{attempt: keepsLonger(b)}
		}), nil},
	}
}

// redKeys are the faults of group G.
func redKeys() []red {
	return []red{
		{"G01", "an empty key is a key", "contract/outcome", acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				if r.Key == "" {
					r.Key = "nothing"
				}
				return next(ctx, r)
			}
		}), nil},
		{"G02", "keys are folded to lower case", "contract/keys-alias", keysBy(strings.ToLower), nil},
		{"G03", "escapes are undone", "contract/keys-alias", keysBy(func(k string) string { return strings.NewReplacer("%2F", "/", "~2F", "/").Replace(k) }), nil},
		{"G04", "paths are cleaned", "contract/keys-alias", keysBy(func(k string) string { return path.Clean("/" + k) }), nil},
		{"G05", "Unicode is normalized", "contract/keys-alias", keysBy(func(k string) string { return strings.ReplaceAll(k, "e\u0301", "\u00e9") }), nil},
		{"G06", "keys end at a zero byte", "contract/keys-alias", keysBy(func(k string) string { k, _, _ = strings.Cut(k, "\x00"); return k }), nil},
		{"G06", "bad bytes are replaced", "contract/keys-alias", keysBy(func(k string) string { return strings.ToValidUTF8(k, "\ufffd") }), nil},
		{"G07", "keys are cut off", "contract/keys-alias", keysBy(func(k string) string { return k[:min(len(k), 255)] }), nil},
		{"G08", "braces are dropped", "contract/keys-alias", keysBy(func(k string) string { return strings.Trim(k, "{}") }), nil},
		{"G08", "a star releases everything", "contract/keys-alias", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{release: func(ctx context.Context, c reference.Claim) error {
				if stem, star := strings.CutSuffix(c.Key, "/*"); star {
					_ = l.Evict(ctx, stem+"/a:b")
				}
				return b.Release(ctx, c)
			}}
		}), nil},
		{"G10", "what follows a quote is a comment", "contract/keys-alias", keysBy(func(k string) string { k, _, _ = strings.Cut(k, "'"); return k }), nil},
		{"G12", "keys are folded to upper case", "contract/keys-alias", keysBy(strings.ToUpper), nil},
	}
}

var firstUse atomic.Int32 // of A11, in which one fails

// grantsHeld grants a key that is held, once in so many times.
func grantsHeld(once int32) func(*lab, reference.Backend) spoiled {
	var n atomic.Int32
	return func(_ *lab, b reference.Backend) spoiled {
		return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			g, err := b.Attempt(ctx, c)
			if errors.Is(err, lockspec.ErrBusy) && n.Add(1)%once == 0 {
				return reference.Grant{Token: time.Now().UnixMicro(), Lease: c.Lease}, nil
			}
			return g, err
		}}
	}
}

// ownerIsProcess grants a key again to whoever shares the process with its holder.
func ownerIsProcess(_ *lab, b reference.Backend) spoiled {
	return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
		c.Owner = fmt.Sprintf("%p", b)
		return b.Attempt(ctx, c)
	}, release: func(ctx context.Context, c reference.Claim) error {
		c.Owner = fmt.Sprintf("%p", b)
		return b.Release(ctx, c)
	}}
}

// checkThenSet looks who holds a key, and takes it a moment later.
func checkThenSet() func(*lab, reference.Backend) spoiled {
	return func(l *lab, b reference.Backend) spoiled {
		return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			if who, _ := l.Inspect(ctx, c.Key); len(who) > 0 {
				return reference.Grant{}, lockspec.ErrBusy
			}
			time.Sleep(5 * time.Millisecond)
			token, err := l.admin.Seed(ctx, c.Key, c.Owner, c.Lease)
			return reference.Grant{Token: token, Lease: c.Lease}, err
		}}
	}
}

func keepsLonger(b reference.Backend) func(context.Context, reference.Claim) (reference.Grant, error) {
	return func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
		asked := c.Lease
		c.Lease *= 100 // beyond whatever a stalled machine may explain
		g, err := b.Attempt(ctx, c)
		g.Lease = asked
		return g, err
	}
}

// answersInstead turns one answer into another; nil is every answer.
func answersInstead(right, wrong error) func(*lab, string) fault {
	return acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
		return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			if right == nil {
				return nil, wrong
			}
			l, err := next(ctx, r)
			if errors.Is(err, right) {
				err = wrong
			}
			return l, err
		}
	})
}

func longerProcesses(t testing.TB, _ *lab) contract.Harness { return newProcesses(t, "longer") }

// keysLonger keeps keys for longer than it says, but not those of the probes.
func keysLonger(b reference.Backend) reference.Backend { return longKeys{b} }

type longKeys struct{ reference.Backend }

func (b longKeys) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	if strings.Contains(c.Key, "/"+contract.ProbesID+"/") {
		return b.Backend.Attempt(ctx, c)
	}
	return keepsLonger(b.Backend)(ctx, c)
}

// Renew is as wrong as Attempt: a renewal on the way out would mend what the
// attempt broke.
func (b longKeys) Renew(ctx context.Context, c reference.Claim) error {
	if !strings.Contains(c.Key, "/"+contract.ProbesID+"/") {
		c.Lease *= 100
	}
	return b.Backend.Renew(ctx, c)
}
