package redis

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec"
)

// TestNames: no two keys share a name, no lock has the name of a counter, and
// a name tells its key.
func TestNames(t *testing.T) {
	o := &Options{Prefix: "p:"}
	seen := map[string]string{}
	for _, key := range []string{"", "a", "{a}", "a}", "{a", "a}:fence", "a:fence", "%", "%25", "%7B", "%7Ba%7D", "{a}:fence", "p:{a}", "a b", "a\x00", "\xff", "é"} {
		for _, name := range []string{o.lockKey(key), o.fenceKey(key)} {
			if other, taken := seen[name]; taken {
				t.Errorf("%q and %q share the name %q", key, other, name)
			}
			seen[name] = key
			if strings.Count(name, "{") != 1 || strings.Count(name, "}") != 1 {
				t.Errorf("%q: a cluster reads another tag in %q", key, name)
			}
		}
		if back, ok := o.key(o.lockKey(key)); !ok || back != key {
			t.Errorf("%q came back as %q", key, back)
		}
		if _, ok := o.key(o.fenceKey(key)); ok {
			t.Errorf("the counter of %q is taken for a lock", key)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("a", "b")
	f.Add("{", "%7B")
	f.Fuzz(func(t *testing.T, a, b string) {
		o := &Options{Prefix: "p:"}
		if back, ok := o.key(o.lockKey(a)); !ok || back != a {
			t.Errorf("%q came back as %q", a, back)
		}
		if a != b && o.lockKey(a) == o.lockKey(b) || o.lockKey(a) == o.fenceKey(b) {
			t.Errorf("%q and %q share a name", a, b)
		}
	})
}

// TestTraffic: a relay knows every request of this package for what it is.
func TestTraffic(t *testing.T) {
	o := &Options{Prefix: "lock:"}
	for _, test := range []struct{ command, op, key string }{
		{"EVALSHA " + acquireScript.sum + " 2 lock:{k} lock:{k}:fence a 1", "acquire", "k"},
		{"evalsha " + strings.ToUpper(renewScript.sum) + " 1 lock:{k} a 1", "renew", "k"},
		{"EVALSHA " + releaseScript.sum + " 1 lock:{%7B} a", "release", "{"},
		{"EVALSHA 0123 1 lock:{k} a", "", ""},
		{"EVALSHA", "", ""},
		{"EVALSHA " + acquireScript.sum, "", ""},
		{"SET lock:{k} a NX GET PX 1", "acquire", "k"},
		{"SET lock:{k} a IFEQ a PX 1", "renew", "k"},
		{"SET lock:{k} a", "", ""},
		{"SET lock:{k}", "", ""},
		{"DELIFEQ lock:{k} a", "release", "k"},
		{"DELEX lock:{k} IFEQ a", "release", "k"},
		{"SET other:{k} a NX PX 1", "", ""},
		{"SET lock:{" + probeKey + "x} x NX GET PX 1", "", ""},
		{"GET lock:{k}", "", ""},
		{"PING", "", ""},
		{"", "", ""},
	} {
		var args [][]byte
		for _, w := range strings.Fields(test.command) {
			args = append(args, []byte(w))
		}
		if op, key := o.classify(args); op != test.op || key != test.key {
			t.Errorf("%s: %q of %q, want %q of %q", test.command, op, key, test.op, test.key)
		}
	}
	text := [][]byte{[]byte("EVAL"), []byte(releaseText), []byte("1"), []byte("lock:{k}"), []byte("a")}
	if op, key := o.classify(text); op != "release" || key != "k" {
		t.Errorf("a script with its text: %q of %q", op, key)
	}
}

func TestURL(t *testing.T) {
	for _, test := range []struct{ url, addr string }{
		{"redis://h", "h:6379"},
		{"redis://h:1234/3", "h:1234"},
		{"redis://u:p%40@[::1]:1/?fencing=off&wait=2&wait_timeout=50ms&renew=ifeq&release=delex&pool_size=4&lease=3s&prefix=x&class=replicated-lease", "[::1]:1"},
		{"rediss://h", "h:6379"},
	} {
		addr, o, err := ParseURL(test.url)
		if err != nil || addr != test.addr {
			t.Errorf("%s: %s, %v", test.url, addr, err)
			continue
		}
		if (o.TLS != nil) != strings.HasPrefix(test.url, "rediss") {
			t.Errorf("%s: TLS %v", test.url, o.TLS)
		}
	}
	_, o, err := ParseURL("redis://u:p%40@h/3?fencing=off&wait=2")
	must(t, err)
	if o.Username != "u" || o.Password != "p@" || o.DB != 3 || !o.Unfenced || o.Wait != 2 {
		t.Errorf("%+v", o)
	}
}

// TestBadURL: each error names what is wrong, and never a password.
func TestBadURL(t *testing.T) {
	for _, test := range []struct{ url, says string }{
		{"redis://u:hunter2@h/?lese=1s", `"lese"`},
		{"redis://u:hunter2@h/?password=hunter2", `"password"`},
		{"redis://u:hunter2@h/?lease=1", `"lease"`},
		{"redis://u:hunter2@h/?lease=-1s", `"lease"`},
		{"redis://u:hunter2@h/?lease=1s&lease=2s", `"lease"`},
		{"redis://u:hunter2@h/?fencing=yes", `"fencing"`},
		{"redis://u:hunter2@h/?wait=many", `"wait"`},
		{"redis://u:hunter2@h/?wait=-1", "wait"},
		{"redis://u:hunter2@h/?renew=fast", `"fast"`},
		{"redis://u:hunter2@h/?release=now", `"now"`},
		{"redis://u:hunter2@h/?class=consensus", `"consensus"`},
		{"redis://u:hunter2@h/?prefix=a{b", "prefix"},
		{"redis://u:hunter2@h/?pool_size=", `"pool_size"`},
		{"redis://u:hunter2@h/one", "database"},
		{"redis://u:hunter2@h/-1", "DB"},
		{"redis://u:hunter2@", "host"},
		{"redis://u:hun/ter2@h", "%2F"},
		{"redis://u:hunter2@h:port", Form},
		{"http://u:hunter2@h", `"http"`},
		{"redis:h", "host"},
	} {
		_, _, err := ParseURL(test.url)
		if !errors.Is(err, lockspec.ErrConfig) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, which does not say %s", test.url, err, test.says)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ter2")) {
			t.Errorf("%s: it tells the password: %v", test.url, err)
		}
	}
}
