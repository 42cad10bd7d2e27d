package postgres

import (
	"crypto/sha256"
	"encoding/binary"
)

// KeySQL is the number of an advisory lock as PostgreSQL computes it from a key
// in $1, of type bytea, with the options' prefix before it. What a psql of an
// operator finds under it is what this package holds:
//
//	SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
//	AND (classid::bigint << 32 | objid::bigint) = KeySQL
//
// A key that is text is convert_to(key, 'UTF8').
const KeySQL = `('x' || encode(substr(sha256($1), 1, 8), 'hex'))::bit(64)::bigint`

// KeyID is the number of a key: the first 8 bytes of its SHA-256, big-endian, as
// [KeySQL] has them. Two of a billion keys share one with a probability of 3 %,
// and then exclude each other, no more.
func KeyID(key string) int64 {
	sum := sha256.Sum256([]byte(key))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// id is the number of a key of these options.
func (o *Options) id(key string) int64 { return KeyID(o.Prefix + key) }
