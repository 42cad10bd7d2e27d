package azureblob

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The key K is kept as the blob PREFIX + K, with every byte that is not
// harmless written as a tilde and two digits. The mapping is that of the .NET
// library LockingKit, so that programs in both languages exclude each other on
// one container.
//
// Harmless are letters, digits, "-", "_", "." and "/"; but not a slash at the
// beginning, at the end or after another, nor a dot that begins a segment or
// ends the key, which the service or something on the way to it would rewrite
// (https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata).

// The longest name, and the most segments of one.
const (
	maxName     = 1024
	maxSegments = 254
)

// digestMark begins the name of a key whose own would be too long. No key maps
// to it: behind a tilde there are two digits.
const digestMark = "~sha256~"

const digits = "0123456789ABCDEF"

// blobName is the name of a key's guard.
func (o *Options) blobName(key string) string {
	name := escape(o.Prefix + key)
	if len(name) <= maxName && strings.Count(name, "/") < maxSegments {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	return o.Prefix + digestMark + hex.EncodeToString(sum[:])
}

func escape(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; harmless(key, i) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'~', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

func harmless(key string, i int) bool {
	c, first, last := key[i], i == 0, i == len(key)-1
	afterSlash := !first && key[i-1] == '/'
	switch {
	case c == '/':
		return !first && !last && !afterSlash
	case c == '.':
		return !first && !last && !afterSlash
	}
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// key is the key whose guard has the name. Of one that is kept by its digest
// only the name is known, and stands for it. ok is false for a name that is no
// guard's.
func (o *Options) key(name string) (key string, ok bool) {
	rest, ok := strings.CutPrefix(name, o.Prefix)
	if !ok || strings.HasPrefix(rest, digestMark) {
		return name, ok
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '~' {
			if i+2 >= len(name) {
				return "", false
			}
			high, low := strings.IndexByte(digits, name[i+1]), strings.IndexByte(digits, name[i+2])
			if high < 0 || low < 0 {
				return "", false
			}
			c, i = byte(high<<4|low), i+2
		}
		b.WriteByte(c)
	}
	whole := b.String()
	return strings.CutPrefix(whole, o.Prefix)
}
