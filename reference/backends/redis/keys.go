package redis

import (
	"strings"
)

// The key K is kept as PREFIX{K}, its counter as PREFIX{K}:fence. What stands
// in braces decides the slot of a cluster, so the two are always on one node,
// as one script needs it. A brace of K itself would end the tag early, and
// "a}:fence" would be the counter of "a": braces, and the sign that escapes
// them, are written as percent and two digits.

const fenceSuffix = ":fence"

var (
	escaper   = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
	unescaper = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")
)

// lockKey is the name under which the service keeps a key.
func (o *Options) lockKey(key string) string { return o.Prefix + "{" + escaper.Replace(key) + "}" }

// fenceKey is the name of its counter.
func (o *Options) fenceKey(key string) string { return o.lockKey(key) + fenceSuffix }

// key is the key that the service keeps under a name; ok is false for a name
// that is no lock's.
func (o *Options) key(name string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(name, o.Prefix+"{")
	if !ok {
		return "", false
	}
	rest, ok = strings.CutSuffix(rest, "}")
	if !ok || strings.ContainsAny(rest, "{}") {
		return "", false
	}
	return unescaper.Replace(rest), true
}
