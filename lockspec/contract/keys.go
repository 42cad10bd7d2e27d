package contract

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/workload"
)

func keyCases() []Case {
	cases := []Case{{ID: "G01", Group: "keys", Name: "the shortest and the longest key work, an empty and a longer one are refused", Level: ClientLevel, Since: "1",
		Why: "a key that is cut off is somebody else's key",
		Run: keyLengths}}
	for _, row := range alikes() {
		cases = append(cases, Case{ID: row.id, Group: "keys", Name: row.name, Why: row.why, Level: ClientLevel, Since: "1",
			Run: func(ctx context.Context, e *Env) { e.distinct(ctx, row.keys, row.refusable) }})
	}
	return cases
}

// alike is keys that look alike and are different locks. A key that cannot be
// mapped safely may be refused where the row says so; never may two be one.
type alike struct {
	id, name, why string
	keys          []string
	refusable     bool
}

func alikes() []alike {
	long := strings.Repeat("0123456789abcdef", 32)
	return []alike{
		{"G02", "keys are case-sensitive", "Order and order are two orders",
			[]string{"order", "Order", "ORDER", "ordeR"}, false},
		{"G03", "keys that look alike are different locks", "an escape that is undone, or a slash that is dropped, makes one lock of two",
			[]string{"a/b", "a//b", "/a", "a/", "a", "a~2Fb", "a%2Fb", "a b", "a+b", "a%20b"}, true},
		{"G04", "dots lead nowhere", "a key that is a path climbs out of its folder",
			[]string{".", "..", "a/..", "a.", "a", "a/.", "./a"}, true},
		{"G05", "what looks the same in Unicode is different", "a service that normalizes letters makes one lock of two names",
			[]string{"caf\u00e9", "cafe\u0301", "cafe", "\U0001f512", "\U0001f513", "\u05d0\u05d1", "\u05d1\u05d0", "a\u200bb", "ab"}, true},
		{"G06", "control characters, quotes and broken UTF-8 are handled or refused, never taken for others", "a key that is cut at a zero byte, or whose bad bytes are replaced, is somebody else's",
			[]string{"a", "a\x00", "a\x00b", "a\n", "a\r\n", "a\t", `a"`, "a'", "a\\", "a\xff", "a\xfe", "a\ufffd"}, true},
		{"G07", "keys that begin alike are different however long they are", "a column of 64 or 255 characters cuts off what tells them apart",
			[]string{long[:63] + "x", long[:63] + "y", long[:64] + "x", long[:64] + "y", long[:255] + "x", long[:255] + "y", long[:256] + "x", long[:256] + "y"}, false},
		{"G08", "braces, stars and colons do not leave the key", "a pattern deletes other keys, a hash tag moves them to one slot, a colon to another namespace",
			[]string{"a", "*", "?", "[ab]", "{a}", "{a}b", "a}b{", "a:b", ":", "a*"}, true},
		{"G10", "what means something to SQL, Lua or a shell means nothing", "a key is data that users choose",
			[]string{"a", "'; DROP TABLE locks; --", "' OR '1'='1", `"]]; redis.call('FLUSHALL') --`, "%", "_", "$(reboot)", "`reboot`", "${a}", "a; rm"}, true},
		{"G12", "no locale folds keys", "in Turkish, i and I are not two cases of one letter; in German, ss may be a sharp s",
			[]string{"i", "I", "\u0131", "\u0130", "ss", "\u00df", "\u1e9e"}, true},
	}
}

// keyLengths: all keys of a run begin with its prefix, so that the shortest is
// one character behind that.
func keyLengths(ctx context.Context, e *Env) {
	p, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	keys := []string{"k"}
	limit := e.Description.Bounds.KeyMax
	if room := limit - len(e.Key("")); room > 0 {
		keys = append(keys, strings.Repeat("x", room))
		e.refusesKey(ctx, p, e.Key(strings.Repeat("x", room+1)), "a key that is longer than the bound")
	} else if limit == 0 {
		keys = append(keys, strings.Repeat("x", max(1, 512-len(e.Key("")))))
	}
	e.refusesKey(ctx, p, "", "an empty key")
	for _, key := range keys {
		t := e.MustAcquire(ctx, p, e.ask(key, e.Renewal()))
		e.expectBusy(ctx, "a held key", other, key)
		e.Expect("release", e.Release(ctx, t), lockspec.OK)
	}
}

func (e *Env) refusesKey(ctx context.Context, p *workload.Process, key, what string) {
	t, err := p.Acquire(ctx, lockspec.Request{Key: key, Lease: e.LeaseOf(e.Lease), Renew: e.Renewal()})
	if err == nil {
		_ = e.Release(ctx, e.keep(t))
	}
	e.Expect("acquire of "+what, err, lockspec.InvalidKey)
}

// distinct holds all the keys at once, and releases one after another. Each has
// to be granted though the others are held, to be busy for another process
// then, and to stay so while its neighbours are released.
func (e *Env) distinct(ctx context.Context, keys []string, refusable bool) {
	p, other := e.MustProcess(ctx, "n1"), e.MustProcess(ctx, "n2")
	start := time.Now()
	var held []*workload.Tenure
	var names []string
	for _, key := range keys {
		if limit := e.Description.Bounds.KeyMax; limit > 0 && len(e.Key(key)) > limit {
			continue
		}
		t, err := p.Acquire(ctx, e.askFor(key, 4*e.Lease)) // each pair of keys costs a call
		switch o := lockspec.OutcomeOf(err); {
		case o == lockspec.OK:
			held, names = append(held, e.keep(t)), append(names, key)
		case o == lockspec.InvalidKey && refusable:
		case o == lockspec.Busy:
			e.alias("%q is busy although nobody has acquired it: with %q it is one lock", key, names)
		default:
			e.Expect("acquire of a key that looks like another", err, lockspec.OK)
		}
	}
	if len(held) < 2 {
		e.MustUnsupported("the lock refuses all but one of the keys")
	}
	for i, t := range held {
		for _, name := range names[i:] {
			if !e.busy(ctx, other, name, names[:i], start, t.Lease) {
				break
			}
		}
		e.Expect("release of one of many keys", e.Release(ctx, t), lockspec.OK)
	}
}

// busy says whether a held key is busy for another.
func (e *Env) busy(ctx context.Context, p *workload.Process, key string, released []string, start time.Time, lease time.Duration) bool {
	t, err := p.Acquire(ctx, e.ask(key, e.Renewal()))
	if err != nil {
		return e.Expect("acquire of a held key that looks like another", err, lockspec.Busy)
	}
	_ = e.Release(ctx, e.keep(t))
	if e.Renewal() != lockspec.RenewAuto && lease > 0 && time.Since(start) > lease/2 {
		e.Inconclusive("the leases may have run out before all keys were tried")
		return false
	}
	e.alias("%q is free although it is held: with one of the released %q it is one lock", key, released)
	return false
}

func (e *Env) alias(format string, key string, others []string) {
	e.doubt(checker.Finding{Kind: checker.Contract, Rule: "keys-alias", Key: e.Key(key), Message: fmt.Sprintf(format, key, others)})
}
