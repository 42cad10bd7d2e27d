package azureblob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/reference"
)

// lab is an Azurite that a test has for itself, with faults before it.
type lab struct {
	containers.Server
	*Faults
}

// account is the one of every Azurite of a test.
func account() Options {
	return Options{Account: containers.AzuriteAccount, Key: containers.AzuriteKey, Takeover: time.Second}
}

// started starts an Azurite; where there is none the test is skipped, or fails
// if everything is required.
func started(t testing.TB, o *containers.AzuriteOptions) containers.Server {
	t.Helper()
	s, err := containers.Azurite(t.Context(), o)
	var missing *containers.MissingError
	if errors.As(err, &missing) && os.Getenv("LOCKCHECK_REQUIRE") != "all" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// own is an Azurite that the test does with what it likes.
func own(t testing.TB) *lab {
	t.Helper()
	s := started(t, nil)
	o := account()
	f, err := NewFaults(t.Context(), restartable{s}, "locks", &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return &lab{s, f}
}

type restartable struct{ containers.Server }

func (s restartable) Restart(ctx context.Context) error {
	return s.Server.Restart(ctx, containers.Forget)
}

// keys are unique in a test binary, so that tests share an Azurite.
var keys atomic.Int64

func newKey(name string) string { return fmt.Sprintf("%s/%d", name, keys.Add(1)) }

// straight is a way to the container past the relay.
func (l *lab) straight(t testing.TB, change func(o *Options)) *Backend {
	t.Helper()
	return way(t, l.at(l.Server.Addr(), "locks"), change)
}

// through is a way by the relay.
func (l *lab) through(t testing.TB, change func(o *Options)) *Backend {
	t.Helper()
	return way(t, l.URL(), change)
}

func way(t testing.TB, url string, change func(o *Options)) *Backend {
	t.Helper()
	o := account()
	if change != nil {
		change(&o)
	}
	b, err := New(url, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func unfenced(o *Options) { o.Unfenced = true }

func claim(key, owner string) reference.Claim {
	return reference.Claim{Key: key, Owner: owner, Lease: LeaseMin, Count: 1}
}

// grant takes a key that must be free.
func grant(t *testing.T, b *Backend, c reference.Claim) int64 {
	t.Helper()
	g, err := b.Attempt(t.Context(), c)
	if err != nil {
		t.Fatalf("attempt of a free key: %v", err)
	}
	return g.Token
}

// attempt is the error of an attempt.
func attempt(t *testing.T, b *Backend, c reference.Claim) error {
	t.Helper()
	_, err := b.Attempt(t.Context(), c)
	return err
}

func expect(t *testing.T, what string, err error, want error) {
	t.Helper()
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reason is why a tenure was lost.
func reason(t *testing.T, err error) reference.Reason {
	t.Helper()
	var loss *reference.LostError
	if !errors.As(err, &loss) {
		t.Fatalf("no loss: %v", err)
	}
	return loss.Reason
}

// put writes a guard's content and metadata as somebody else does. (With the
// content in one request, Azurite 3.35 would write names in small letters.)
func put(t *testing.T, b *Backend, key, content string, metadata map[string]string) {
	t.Helper()
	all := map[string]*string{}
	for name, value := range metadata {
		all[name] = &value
	}
	at := b.container.NewBlockBlobClient(b.opts.blobName(key))
	_, err := at.UploadBuffer(t.Context(), []byte(content), nil)
	must(t, err)
	_, err = at.SetMetadata(t.Context(), all, nil)
	must(t, err)
}

// content is what a guard holds.
func content(t *testing.T, b *Backend, key string) string {
	t.Helper()
	buf := make([]byte, 64)
	n, err := b.container.NewBlobClient(b.opts.blobName(key)).DownloadBuffer(t.Context(), buf, nil)
	must(t, err)
	return string(buf[:n])
}

// properties of a guard.
func properties(t *testing.T, b *Backend, key string) blob.GetPropertiesResponse {
	t.Helper()
	p, err := b.container.NewBlobClient(b.opts.blobName(key)).GetProperties(t.Context(), nil)
	must(t, err)
	return p
}

// lookup finds metadata however its name is written.
func lookup(metadata map[string]*string, name string) string {
	for n, v := range metadata {
		if strings.EqualFold(n, name) && v != nil {
			return *v
		}
	}
	return ""
}

// expire waits until the lease of a key is over by the service's own account.
func expire(t *testing.T, b *Backend, key string) {
	t.Helper()
	for limit := time.Now().Add(2 * LeaseMin); ; time.Sleep(20 * time.Millisecond) {
		if p := properties(t, b, key); p.LeaseState != nil && *p.LeaseState == "expired" {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("it never expired")
		}
	}
}
