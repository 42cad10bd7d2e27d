package azureblob

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
)

// TestNames: the mapping that LockingKit documents, by examples of each of its
// sentences.
func TestNames(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 32)
	snow := strings.Repeat("\u2603", 512) // 9 characters each
	digest := func(key string) string {
		sum := sha256.Sum256([]byte(key))
		return "~sha256~" + hex.EncodeToString(sum[:])
	}
	for key, want := range map[string]string{
		"orders/42":           "orders/42",
		"jobs/nightly":        "jobs/nightly",
		"A-Z_a.z0":            "A-Z_a.z0",
		"a b":                 "a~20b",
		"a~2Fb":               "a~7E2Fb",
		"a%2Fb":               "a~252Fb",
		"a+b":                 "a~2Bb",
		"a\\b":                "a~5Cb",
		"caf\u00e9":           "caf~C3~A9",
		"cafe\u0301":          "cafe~CC~81",
		"\U0001f512":          "~F0~9F~94~92",
		"a\x00":               "a~00",
		"a\xff":               "a~FF",
		"/a":                  "~2Fa",
		"a/":                  "a~2F",
		"a//b":                "a/~2Fb",
		"/":                   "~2F",
		"//":                  "~2F~2F",
		".":                   "~2E",
		"..":                  "~2E~2E",
		".a":                  "~2Ea",
		"a.":                  "a~2E",
		"a/..":                "a/~2E~2E",
		"a/./b":               "a/~2E/b",
		"a/../b":              "a/~2E./b",
		"./a":                 "~2E/a",
		"a.b":                 "a.b",
		"a./b":                "a./b",
		"~sha256~00":          "~7Esha256~7E00",
		long:                  long,
		snow:                  digest(snow),
		deep(254):             deep(254),
		deep(255):             digest(deep(255)),
		long + long:           long + long, // 1024, of which none is escaped
		long + long[1:] + ":": digest(long + long[1:] + ":"),
	} {
		o := &Options{}
		if name := o.blobName(key); name != want {
			t.Errorf("%.40q is kept as %.60q, want %.60q", key, name, want)
		}
	}
}

// deep is a key of so many segments.
func deep(n int) string { return strings.Repeat("a/", n-1) + "a" }

// TestPrefix: keys below a prefix are mapped as without it, and a name tells
// its key.
func TestPrefix(t *testing.T) {
	o := &Options{Prefix: "run-1/"}
	seen := map[string]string{}
	for _, key := range []string{"a", "/a", "//a", ".", "..", "a/", "a//b", "a~2Fb", "a%2Fb", "run-1/a", "\xff", "\ufffd", "é"} {
		name := o.blobName(key)
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q share the name %q", key, other, name)
		}
		seen[name] = key
		if back, ok := o.key(name); !ok || back != key {
			t.Errorf("%q came back as %q", key, back)
		}
	}
	for _, name := range []string{"run-2/a", "run-1", "run-1/a~2", "run-1/~zz"} {
		if key, ok := o.key(name); ok {
			t.Errorf("%q is taken for the guard of %q", name, key)
		}
	}
	if name := o.blobName(deep(300)); !strings.HasPrefix(name, "run-1/~sha256~") {
		t.Errorf("a sweep would not find %q", name)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("a", "b")
	f.Add("/", "~2F")
	f.Add("..", "./")
	f.Fuzz(func(t *testing.T, a, b string) {
		o := &Options{Prefix: "p/"}
		name := o.blobName(a)
		if a == "" || strings.Contains(name, digestMark) {
			return
		}
		if back, ok := o.key(name); !ok || back != a {
			t.Errorf("%q came back as %q", a, back)
		}
		if b != "" && a != b && name == o.blobName(b) {
			t.Errorf("%q and %q share a name", a, b)
		}
		if strings.Contains(name, "//") || strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".") || strings.Contains(name, "/.") {
			t.Errorf("the service would rewrite %q", name)
		}
	})
}

// TestTraffic: a relay knows every request of this package for what it is.
func TestTraffic(t *testing.T) {
	o := &Options{Prefix: "p/"}
	protocol := o.protocol("/acc/locks")
	for _, test := range []struct{ method, url, action, op, key string }{
		{"PUT", "/acc/locks/p%2Fk?comp=lease", "acquire", "acquire", "k"},
		{"PUT", "/acc/locks/p%2Fk?comp=lease", "renew", "renew", "k"},
		{"PUT", "/acc/locks/p%2Fa~20b?comp=lease", "release", "release", "a b"},
		{"PUT", "/acc/locks/p%2Fk?comp=lease", "break", "", ""},
		{"PUT", "/acc/locks/p%2Fk?comp=metadata", "", "", ""},
		{"PUT", "/acc/locks/q%2Fk?comp=lease", "acquire", "", ""},
		{"PUT", "/acc/others/p%2Fk?comp=lease", "acquire", "", ""},
		{"PUT", "/acc/locks/p%2F" + probeKey + "x?comp=lease", "acquire", "", ""},
		{"HEAD", "/acc/locks/p%2Fk", "", "", ""},
	} {
		r, err := http.NewRequest(test.method, test.url, nil)
		must(t, err)
		r.Header.Set("x-ms-lease-action", test.action)
		if op, key := protocol.Classify(r); op != test.op || key != test.key {
			t.Errorf("%s %s %s is %s of %q, want %s of %q", test.method, test.url, test.action, op, key, test.op, test.key)
		}
	}
}
