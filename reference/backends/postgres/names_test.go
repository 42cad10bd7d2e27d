package postgres

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec"
)

// golden are numbers of keys, as every version has had them.
var golden = map[string]int64{
	"orders/42":              -4261225075031449721,
	"orders/42é":             -7880694323800069029,
	"a":                      -3848465438864589366,
	"A":                      6168500820899059065,
	"":                       -2039914840885289964,
	"a/b":                    -4517992508584211555,
	"a//b":                   8834601437433283040,
	"{}":                     4905387166444775306,
	"a\x00b":                 6463353407833682387,
	"e\u0301":                -4678546791977036110,
	"é":                      5375421630974772051,
	strings.Repeat("x", 512): 7212026910977811256,
	"\xff\xfe":               -5488461952128164696,
}

// TestG11_NumbersOfKeysAreStableAndSQLAgrees: what this package locks is what
// an operator finds, today and after the next release.
func TestG11_NumbersOfKeysAreStableAndSQLAgrees(t *testing.T) {
	l := newLab(t)
	for key, want := range golden {
		if got := KeyID(key); got != want {
			t.Errorf("%q is number %d, and was %d", key, got, want)
		}
		text := strings.ReplaceAll(KeySQL, "$1", `'\x`+hex.EncodeToString([]byte(key))+`'::bytea`)
		if got := l.sql(t, "SELECT "+text)[0]; got != fmt.Sprint(want) {
			t.Errorf("%q is number %s to SQL, %d to Go", key, got, want)
		}
	}
	b := backend(t, at(l.Addr()), &Options{Prefix: "p:"})
	c := claim(t, "k", "a")
	grant(t, b, c)
	text := strings.ReplaceAll(KeySQL, "$1", "convert_to('p:"+c.Key+"', 'UTF8')")
	if l.sql(t, "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = "+text) == nil {
		t.Error("an operator does not find who holds the key")
	}
}

func TestURL(t *testing.T) {
	server, o, err := ParseURL("postgres://u:p%40@[::1]:1/db?fencing=off&prefix=x&table=s.t&create=off&probe=3s&pool_size=4&pooler=session&sslmode=disable")
	must(t, err)
	if o.Prefix != "x" || !o.Unfenced || o.Table != "s.t" || !o.NoCreate || o.Probe.Seconds() != 3 || o.PoolSize != 4 || o.Pooler != SessionPooler {
		t.Errorf("%+v", o)
	}
	if want := "postgres://u:p%40@[::1]:1/db?sslmode=disable"; server != want {
		t.Errorf("%s is left, want %s", server, want)
	}
}

// TestBadURL: each error names what is wrong, and never a password.
func TestBadURL(t *testing.T) {
	for _, test := range []struct{ url, says string }{
		{"postgres://u:hunter2@h/d?tabel=x", `"tabel"`},
		{"postgres://u:hunter2@h/d?password=hunter2", `"password"`},
		{"postgres://u:hunter2@h/d?host=hunter2", `"host"`},
		{"postgres://u:hunter2@h/d?probe=1", `"probe"`},
		{"postgres://u:hunter2@h/d?probe=1ms", "probe 1ms"},
		{"postgres://u:hunter2@h/d?probe=1s&probe=2s", `"probe"`},
		{"postgres://u:hunter2@h/d?fencing=yes", `"fencing"`},
		{"postgres://u:hunter2@h/d?table=x;DROP", "OPTION=VALUE"},
		{"postgres://u:hunter2@h/d?table=x%3BDROP", `table "`},
		{"postgres://u:hunter2@h/d?table=X", `table "X"`},
		{"postgres://u:hunter2@h/d?pool_size=many", `"pool_size"`},
		{"postgres://u:hunter2@h/d?pool_size=-1", "pool size -1"},
		{"postgres://u:hunter2@h/d?pooler=transaction", `"transaction"`},
		{"postgres://u:hunter2@h/d?sslmode=hunter2", "sslmode"},
		{"postgres://u:hunter2@h/d?sslmode=verify-full&sslrootcert=/no/such/file", "/no/such/file"},
		{"postgres://u:hunter2@h/", "DATABASE"},
		{"postgres://u:hunter2@h", "DATABASE"},
		{"postgres://u:hunter2@/d", "host"},
		{"postgres://u:hun/ter2@h/d", "%2F"},
		{"postgres://u:hunter2@h:port/d", Form},
		{"http://u:hunter2@h/d", `"http"`},
	} {
		_, _, err := ParseURL(test.url)
		if !errors.Is(err, lockspec.ErrConfig) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, which does not say %s", test.url, err, test.says)
		}
		if err != nil && strings.Contains(err.Error(), "ter2") {
			t.Errorf("%s: it tells the password: %v", test.url, err)
		}
	}
}
