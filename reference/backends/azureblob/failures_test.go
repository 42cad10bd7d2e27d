package azureblob

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
)

// secretKey is in base64, and wrong for every account.
const secretKey = "aHVudGVyMmh1bnRlcjI="

// TestRefusals: what a real service refuses, and what is said then, soon and
// without a secret.
func TestRefusals(t *testing.T) {
	l := own(t)
	reader, err := l.signature(sas.ContainerPermissions{Read: true, List: true})
	must(t, err)
	must(t, func() error {
		_ = err
		return nil
	}())
	for _, test := range []struct {
		what    string
		at      string
		change  func(o *Options)
		setting string
	}{
		{"wrong key", "locks", func(o *Options) { o.Key = secretKey }, "KEY"},
		{"wrong account", "locks", func(o *Options) { o.Account = "nobody" }, "KEY"},
		{"missing container", "no-such-container", nil, "CONTAINER"},
		{"missing container, unfenced", "no-such-container", unfenced, "CONTAINER"},
		{"name that no container has", "UPPER_CASE", nil, "CONTAINER"},
		{"SAS that may only read", "locks", func(o *Options) { o.Key, o.SAS = "", reader }, "SAS"},
		{"SAS with a wrong signature", "locks", func(o *Options) {
			o.Key, o.SAS = "", strings.Split(reader, "sig=")[0]+"sig=hunter2"
		}, "KEY"},
	} {
		t.Run(test.what, func(t *testing.T) {
			b := way(t, l.at(l.Server.Addr(), test.at), test.change)
			begin := time.Now()
			err := attempt(t, b, claim(newKey("refused"), "a"))
			expect(t, test.what, err, lockspec.ErrConfig)
			expect(t, test.what, err, reference.ErrNotSent)
			var why *refusal.Error
			if !errors.As(err, &why) || why.Setting != test.setting {
				t.Errorf("it blames %+v (%v), want %q", why, err, test.setting)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), secretKey) || strings.Contains(err.Error(), "sig=")) {
				t.Errorf("it tells a secret: %v", err)
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	missing := way(t, l.at(l.Server.Addr(), "no-such-container"), nil)
	for what, call := range map[string]func(context.Context, reference.Claim) error{"renewal": missing.Renew, "release": missing.Release} {
		expect(t, what+" where the container is gone", call(t.Context(), claim("k", "a")), lockspec.ErrLost)
	}
}

// TestSAS: a signature that may read, create and write is enough for a lock.
func TestSAS(t *testing.T) {
	l := own(t)
	enough, err := l.signature(sas.ContainerPermissions{Read: true, Create: true, Write: true})
	must(t, err)
	b := way(t, l.URL(), func(o *Options) { o.Key, o.SAS = "", "?"+enough })
	c := claim(newKey("sas"), "a")
	first := grant(t, b, c)
	must(t, b.Renew(t.Context(), c))
	must(t, b.Release(t.Context(), c))
	// Without leave to list, foreign metadata is kept as the client names it.
	put(t, l.way(), c.Key, "x", map[string]string{"color": "red", FenceEntry: fmt.Sprint(first)})
	if second := grant(t, b, claim(c.Key, "b")); second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	if got := lookup(properties(t, l.way(), c.Key).Metadata, "color"); got != "red" {
		t.Errorf("the entry of another is %q", got)
	}
}

// TestUnreachable: nothing was sent, so nothing is in doubt, and nobody retries
// behind the engine's back. The signature in the URL is told to nobody.
func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := silent.Addr().String()
	must(t, silent.Close())
	begin := time.Now()
	b := way(t, "http://"+addr+"/acc/locks", func(o *Options) { o.Key, o.SAS = "", "sv=1&sig=hunter2" })
	err = attempt(t, b, claim("k", "a"))
	expect(t, "refused connection", err, lockspec.ErrUnavailable)
	expect(t, "refused connection", err, reference.ErrNotSent)
	if strings.Contains(fmt.Sprintf("%v %+v", err, err), "hunter2") {
		t.Errorf("it tells the signature: %v", err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// answering is a service that answers every request alike, and counts them.
func answering(t *testing.T, status int, code string, header ...string) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		if code != "" {
			w.Header().Set("x-ms-error-code", code)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/acc/locks", asked
}

// TestCodes: what the service answers, by its code, whatever its text. Many of
// these Azurite never says, Azure does.
func TestCodes(t *testing.T) {
	for _, test := range []struct {
		status               int
		code                 string
		acquire, renew, free error
	}{
		{409, "LeaseAlreadyPresent", lockspec.ErrBusy, lockspec.ErrLost, lockspec.ErrLost},
		{409, "LeaseIsBreakingAndCannotBeAcquired", lockspec.ErrBusy, lockspec.ErrLost, lockspec.ErrLost},
		{409, "LeaseIdMismatchWithLeaseOperation", nil, lockspec.ErrLost, lockspec.ErrLost},
		{409, "LeaseNotPresentWithLeaseOperation", nil, lockspec.ErrLost, lockspec.ErrLost},
		{409, "LeaseIsBrokenAndCannotBeRenewed", nil, lockspec.ErrLost, lockspec.ErrLost},
		{412, "LeaseLost", nil, lockspec.ErrLost, lockspec.ErrLost},
		{412, "LeaseNotPresentWithBlobOperation", nil, lockspec.ErrLost, lockspec.ErrLost},
		{404, "BlobNotFound", nil, lockspec.ErrLost, lockspec.ErrLost},
		{404, "ContainerNotFound", lockspec.ErrConfig, lockspec.ErrLost, lockspec.ErrLost},
		{403, "AuthenticationFailed", lockspec.ErrConfig, lockspec.ErrConfig, lockspec.ErrConfig},
		{403, "AuthorizationPermissionMismatch", lockspec.ErrConfig, lockspec.ErrConfig, lockspec.ErrConfig},
		{403, "AccountIsDisabled", lockspec.ErrConfig, lockspec.ErrConfig, lockspec.ErrConfig},
		{409, "ContainerBeingDeleted", lockspec.ErrUnavailable, lockspec.ErrUnavailable, lockspec.ErrUnavailable},
		{503, "ServerBusy", lockspec.ErrUnavailable, lockspec.ErrUnavailable, lockspec.ErrUnavailable},
		{500, "OperationTimedOut", lockspec.ErrUnavailable, lockspec.ErrUnavailable, lockspec.ErrUnavailable},
		{500, "", lockspec.ErrUnavailable, lockspec.ErrUnavailable, lockspec.ErrUnavailable},
		{409, "SomethingNew", lockspec.ErrUnavailable, lockspec.ErrUnavailable, lockspec.ErrUnavailable},
	} {
		url, _ := answering(t, test.status, test.code)
		b := way(t, url, nil)
		what := fmt.Sprintf("%d %s", test.status, test.code)
		if err := attempt(t, b, claim("k", "a")); test.acquire != nil {
			expect(t, what+": attempt", err, test.acquire)
		} else if errors.Is(err, lockspec.ErrBusy) || err == nil {
			t.Errorf("%s: attempt: %v", what, err)
		}
		expect(t, what+": renewal", b.Renew(t.Context(), claim("k", "a")), test.renew)
		expect(t, what+": release", b.Release(t.Context(), claim("k", "a")), test.free)
	}
}

// TestExists: that there is a guard is told in several ways, all of which are
// right; Azure says LeaseIdMissing of a leased one, older Azurites
// BlobAlreadyExists.
func TestExists(t *testing.T) {
	for _, code := range []string{"BlobAlreadyExists", "LeaseIdMissing", "ConditionNotMet"} {
		url, _ := answering(t, http.StatusConflict, code)
		_, err := way(t, url, nil).guard(claim("k", "a")).create(t.Context())
		expect(t, code, err, nil)
	}
	url, _ := answering(t, http.StatusServiceUnavailable, "ServerBusy")
	if _, err := way(t, url, nil).guard(claim("k", "a")).create(t.Context()); err == nil {
		t.Error("a service that is busy has made no guard")
	}
}

// TestOnce: no request is sent again by itself, whatever the service says of
// when to.
func TestOnce(t *testing.T) {
	url, asked := answering(t, http.StatusServiceUnavailable, "ServerBusy", "Retry-After", "1")
	b := way(t, url, nil)
	begin := time.Now()
	for what, call := range map[string]func() error{
		"attempt": func() error { return attempt(t, b, claim("k", "a")) },
		"renewal": func() error { return b.Renew(t.Context(), claim("k", "a")) },
		"release": func() error { return b.Release(t.Context(), claim("k", "a")) },
	} {
		asked.Store(0)
		expect(t, what, call(), lockspec.ErrUnavailable)
		if n := asked.Load(); n != 1 {
			t.Errorf("%s: %d requests", what, n)
		}
	}
	if took := time.Since(begin); took > 900*time.Millisecond {
		t.Errorf("it took %v: somebody waited", took)
	}
}

// TestWritePermission: a lease that was granted, whose token may not be
// written, is given back, and nobody is told that it is busy.
func TestWritePermission(t *testing.T) {
	var released atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("x-ms-lease-action") {
		case "acquire":
			w.WriteHeader(http.StatusCreated)
		case "release":
			released.Store(true)
			w.WriteHeader(http.StatusOK)
		default:
			w.Header().Set("x-ms-error-code", "AuthorizationPermissionMismatch")
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer s.Close()
	err := attempt(t, way(t, s.URL+"/acc/locks", nil), claim("k", "a"))
	expect(t, "the attempt", err, lockspec.ErrConfig)
	if !released.Load() {
		t.Error("the lease was not given back")
	}
}

// TestRestart: an emulator that lost everything has lost the container too; the
// faults make it anew, and tokens go on rising.
func TestRestart(t *testing.T) {
	l := own(t)
	b := l.through(t, nil)
	c := claim(newKey("restart"), "a")
	first := grant(t, b, c)
	must(t, l.Faults.Restart(t.Context()))
	expect(t, "renewal after a restart", b.Renew(t.Context(), c), lockspec.ErrLost)
	if second := grant(t, b, claim(c.Key, "b")); second <= first {
		t.Errorf("token %d after %d and a restart", second, first)
	}
}

// TestPause: a call returns with its context though the service stands still,
// and a late renewal does no harm. A ping knows whose doing the silence is.
func TestPause(t *testing.T) {
	l := own(t)
	b := l.through(t, nil)
	c := claim(newKey("pause"), "a")
	grant(t, b, c)
	must(t, l.Faults.Ping(t.Context()))
	must(t, l.Faults.Stop(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := b.Renew(ctx, c); err == nil || errors.Is(err, lockspec.ErrLost) {
		t.Errorf("a renewal without an answer: %v", err)
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it returned after %v", took)
	}
	expect(t, "ping", l.Faults.Ping(t.Context()), lockspec.ErrUnsupported)
	must(t, l.Continue(t.Context()))
	expect(t, "renewal afterwards", b.Renew(t.Context(), c), nil)
	must(t, l.Faults.Ping(t.Context()))
}

// TestMisdirected: every client that is configured wrongly is refused, and no
// other is made up.
func TestMisdirected(t *testing.T) {
	l := own(t)
	for _, what := range []contract.Misdirection{contract.WrongCredentials, contract.MissingStorage, contract.ReadOnly} {
		c, err := l.OpenAt(t.Context(), what)
		must(t, err)
		_, err = c.Acquire(t.Context(), lockspec.Request{Key: newKey("misdirected"), Lease: LeaseMin, Wait: lockspec.NoLimit})
		expect(t, string(what), err, lockspec.ErrConfig)
		must(t, c.Close())
	}
	_, err := l.OpenAt(t.Context(), contract.AtReplica)
	expect(t, "a replica", err, lockspec.ErrUnsupported)
}

// TestStranger: a key that was given to a stranger is known for his, for longer
// than the service grants too.
func TestStranger(t *testing.T) {
	l := own(t)
	b := l.through(t, nil)
	c := claim(newKey("stranger"), "a")
	first := grant(t, b, c)
	if held, err := l.Inspect(t.Context(), c.Key); err != nil || len(held) != 1 || held[0].Token != first || held[0].Owner != b.guard(c).mark() {
		t.Errorf("%v, %v", held, err)
	}
	for _, long := range []time.Duration{time.Second, 5 * time.Minute} {
		must(t, l.Seed(t.Context(), c.Key, "stranger", long))
		held, err := l.Inspect(t.Context(), c.Key)
		must(t, err)
		if len(held) != 1 || held[0].Owner != "stranger" || held[0].Token <= first {
			t.Errorf("%v, want the stranger with more than %d", held, first)
		}
		if r := reason(t, b.Renew(t.Context(), c)); r != reference.TakenOver {
			t.Errorf("the former holder lost it because %s", r)
		}
	}
	must(t, l.Evict(t.Context(), c.Key))
	if held, err := l.Inspect(t.Context(), c.Key); err != nil || len(held) != 0 {
		t.Errorf("%v, %v after the eviction", held, err)
	}
	grant(t, b, claim(c.Key, "b"))
	if held, _ := l.Inspect(t.Context(), c.Key); len(held) != 1 || held[0].Owner == "stranger" {
		t.Errorf("%v, though the stranger is gone", held)
	}
}

// TestDiscreet: an error of the transport does not quote the URL.
func TestDiscreet(t *testing.T) {
	b := way(t, "http://127.0.0.1:1/acc/locks", func(o *Options) {
		o.Key, o.SAS = "", "sig=hunter2"
		o.Transport = broke{}
	})
	if err := attempt(t, b, claim("k", "a")); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
	var said *azcore.ResponseError
	if errors.As(translate(errors.New("x")), &said) {
		t.Error("nothing was said")
	}
}

type broke struct{}

func (broke) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("it broke") }
