package azureblob

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

func TestURL(t *testing.T) {
	for _, test := range []struct {
		url, want string
		o         Options
	}{
		{"azblob://acc:a%2FZ%2Bbw%3D%3D@acc.blob.core.windows.net/locks", "https://acc.blob.core.windows.net/locks", Options{Account: "acc", Key: "a/Z+bw=="}},
		{"azblob://acc:a2V5@127.0.0.1:10000/locks?tls=off&lease=20s&prefix=x/", "http://127.0.0.1:10000/acc/locks",
			Options{Account: "acc", Key: "a2V5", Lease: 20 * time.Second, Prefix: "x/"}},
		{"azblob://acc:a2V5@localhost/locks/", "https://localhost/acc/locks", Options{Account: "acc", Key: "a2V5"}},
		{"azblob://acc@acc.blob.core.windows.net/locks?sv=2024&sr=c&sig=a%2Fb&fencing=off&takeover=1s", "https://acc.blob.core.windows.net/locks",
			Options{Account: "acc", SAS: "sig=a%2Fb&sr=c&sv=2024", Unfenced: true, Takeover: time.Second}},
	} {
		at, o, err := ParseURL(test.url)
		must(t, err)
		if at != test.want || *o != test.o {
			t.Errorf("%s: %s %+v, want %s %+v", test.url, at, *o, test.want, test.o)
		}
	}
}

// TestBadURL: each names what is wrong, and quotes no secret.
func TestBadURL(t *testing.T) {
	const host = "@acc.blob.core.windows.net"
	for url, says := range map[string]string{
		"azblob://acc:hun/ter2" + host + "/locks":                                "%2F",
		"azblob://acc:hunter2" + host + "/locks":                                 "base64",
		"azblob://" + host[1:] + "/locks":                                        "ACCOUNT",
		"azblob://acc:a2V5@/locks":                                               "HOST",
		"azblob:acc":                                                             "HOST",
		"azblob://acc:a2V5" + host:                                               "CONTAINER",
		"azblob://acc:a2V5" + host + "/a/b":                                      "CONTAINER",
		"azure://acc:a2V5" + host + "/locks":                                     `"azure"`,
		"azblob://acc:a2V5" + host + "/locks?lese=1s":                            `"lese"`,
		"azblob://acc:a2V5" + host + "/locks?lease=10s":                          "15s to 1m0s",
		"azblob://acc:a2V5" + host + "/locks?lease=61s":                          "15s to 1m0s",
		"azblob://acc:a2V5" + host + "/locks?lease=soon":                         `"lease"`,
		"azblob://acc:a2V5" + host + "/locks?takeover=-1s":                       `"takeover"`,
		"azblob://acc:a2V5" + host + "/locks?fencing=maybe":                      `"fencing"`,
		"azblob://acc:a2V5" + host + "/locks?tls=":                               `"tls"`,
		"azblob://acc:a2V5" + host + "/locks?prefix=a//b":                        "prefix",
		"azblob://acc:a2V5" + host + "/locks?prefix=/a":                          "prefix",
		"azblob://acc:a2V5" + host + "/locks?sig=hunter2":                        "exactly one",
		"azblob://acc" + host + "/locks":                                         "exactly one",
		"azblob://acc" + host + "/locks?sv=1&sp=r":                               "sig",
		"azblob://acc" + host + "/locks?sig=hunter2&lese=1s":                     `"lese"`,
		"azblob://acc:a2V5" + host + "/locks?prefix=a&prefix=b":                  "one value",
		"azblob://acc:a2V5" + host + "/locks?prefix=" + strings.Repeat("a", 200): "128",
	} {
		_, _, err := ParseURL(url)
		if !errors.Is(err, lockspec.ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; it does not say %s", url, err, says)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ter2") || strings.Contains(err.Error(), "a2V5")) {
			t.Errorf("%s: it tells a secret: %v", url, err)
		}
	}
}

// TestOptions: all that is wrong is told at once.
func TestOptions(t *testing.T) {
	_, err := New("https://acc.blob.core.windows.net/locks", &Options{Key: "hunter2", SAS: "sig=x", Lease: time.Second, Takeover: -1, Prefix: "a b"})
	for _, says := range []string{"2 credentials", "without the name", "base64", "1s", "-1ns", `"a b"`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it does not say %q: %v", says, err)
		}
	}
	_, err = New("https://acc.blob.core.windows.net/locks", nil)
	expect(t, "no credentials", err, lockspec.ErrConfig)
}
