package azureblob

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/lockcheck/lockcheck/lockspec"
)

// tokens rise across releases, and are made up for when the entry is lost,
// overwritten, or written with other letters.
func tokens(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	key := newKey("tokens")
	last := int64(0)
	next := func(what string) {
		t.Helper()
		token := grant(t, b, claim(key, fmt.Sprint(last)))
		must(t, b.Release(t.Context(), claim(key, fmt.Sprint(last))))
		if token <= last {
			t.Errorf("token %d after %d, %s", token, last, what)
		}
		last = token
	}
	next("at first")
	next("after a release")
	for range 5 {
		must(t, b.remove(t.Context(), b.opts.blobName(key)))
		next("though the guard was deleted")
	}
	put(t, b, key, "", map[string]string{FenceEntry: "rubbish"})
	next("though the entry was overwritten")
	put(t, b, key, "", map[string]string{FenceEntry: "-7"})
	next("though the entry is negative")
	ahead := time.Now().Add(time.Hour).UnixMicro()
	put(t, b, key, "", map[string]string{strings.ToUpper(FenceEntry): fmt.Sprint(ahead)})
	last = ahead // the clock of whoever wrote it was ahead
	next("though the clock is behind the entry, and its name in capitals")
	if m := properties(t, b, key).Metadata; len(m) != 1 {
		t.Errorf("there are two entries: %v", m)
	}
}

// tokensAtEnd: a token that cannot rise is a misconfiguration, and the lease is
// given back.
func tokensAtEnd(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	key := newKey("end")
	put(t, b, key, "", map[string]string{FenceEntry: fmt.Sprint(int64(exact))})
	expect(t, "an attempt", attempt(t, b, claim(key, "a")), lockspec.ErrConfig)
	if p := properties(t, b, key); *p.LeaseState != "available" {
		t.Errorf("an attempt that was refused left the lease %s", *p.LeaseState)
	}
}

// lateToken: the write of a token that was sent for an earlier version comes
// too late and changes nothing.
func lateToken(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	c := claim(newKey("late"), "a")
	put(t, b, c.Key, "", nil)
	g := b.guard(c)
	_, err := g.acquire(t.Context(), LeaseMin)
	must(t, err)
	before := properties(t, b, c.Key).ETag
	token := grant(t, b, c)
	text := "1 " + g.mark()
	_, err = g.blob.SetMetadata(t.Context(), map[string]*string{FenceEntry: &text}, &blob.SetMetadataOptions{AccessConditions: g.conditions(before)})
	if code(err) != "ConditionNotMet" {
		t.Errorf("the late write: %v", err)
	}
	if again := grant(t, b, c); again != token {
		t.Errorf("token %d, then %d", token, again)
	}
}

// foreignMetadata: entries of others go through a grant as they were, names and
// all. Who may not list the container keeps names that the service takes for
// the same.
func foreignMetadata(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	key := newKey("foreign")
	put(t, b, key, "x", map[string]string{"fooBar": "one", "UPPER": "Two Three", "a_b": "="})
	put(t, b, key+"x", "x", map[string]string{"fooBar": "of another blob"})
	for n := range 2 {
		c := claim(key, fmt.Sprint(n))
		grant(t, b, c)
		must(t, b.Release(t.Context(), c))
	}
	got := properties(t, b, key).Metadata
	for name, want := range map[string]string{"fooBar": "one", "UPPER": "Two Three", "a_b": "="} {
		if v := lookup(got, name); v != want {
			t.Errorf("%s is %q, no longer %q", name, v, want)
		}
	}
	names, err := b.guard(claim(key, "")).names(t.Context())
	must(t, err)
	slices.Sort(names)
	if want := []string{"UPPER", "a_b", "fooBar", FenceEntry}; !slices.Equal(names, want) {
		t.Errorf("the names are %q, want %q", names, want)
	}
	if len(got) != 4 {
		t.Errorf("%d entries, want 3 and the token", len(got))
	}
}

// guardWrites: the service takes a holder's writes of the guard, and refuses a
// former holder's and a stranger's.
func guardWrites(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	key := newKey("guard")
	token := grant(t, b, claim(key, "a"))
	write := func(g *Guard, text string) error {
		m, err := b.Metadata(t.Context(), key, ownedToken(b, key))
		if err != nil {
			return err
		}
		_, err = g.Blob.UploadBuffer(t.Context(), []byte(text), &blockblob.UploadBufferOptions{AccessConditions: g.Conditions, Metadata: m})
		return err
	}
	g, err := b.Guard(key, token)
	must(t, err)
	must(t, write(g, "mine"))
	_, err = g.Blob.UploadBuffer(t.Context(), []byte("a stranger's"), nil)
	if code(err) != "LeaseIdMissing" {
		t.Errorf("a stranger's write: %v", err)
	}
	must(t, b.Release(t.Context(), claim(key, "a")))
	_, err = b.Guard(key, token)
	expect(t, "the guard of a former holder", err, lockspec.ErrNotHeld)
	second := grant(t, b, claim(key, "b"))
	if second <= token {
		t.Errorf("token %d after %d and a write", second, token)
	}
	if err := write(g, "late"); !errors.Is(translate(err), lockspec.ErrLost) {
		t.Errorf("a former holder's write: %v", err)
	}
	if got := content(t, b, key); got != "mine" {
		t.Errorf("the guard holds %q", got)
	}
}

func ownedToken(b *Backend, key string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[key].token
}

func guardUnfenced(t *testing.T, l *lab) {
	b := l.straight(t, unfenced)
	key := newKey("guard")
	grant(t, b, claim(key, "a"))
	_, err := b.Guard(key, 0)
	expect(t, "a guard without tokens", err, lockspec.ErrUnsupported)
}

// deletedGuard: who deletes the guard ends the tenure, and the next user makes
// another, with a higher token.
func deletedGuard(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	c := claim(newKey("deleted"), "a")
	first := grant(t, b, c)
	must(t, l.Evict(t.Context(), c.Key))
	if r := reason(t, b.Renew(t.Context(), c)); r == "" {
		t.Error("it was lost for no reason")
	}
	expect(t, "release", b.Release(t.Context(), c), lockspec.ErrLost)
	expect(t, "eviction of nothing", l.Evict(t.Context(), c.Key), lockspec.ErrNotHeld)
	if second := grant(t, b, claim(c.Key, "b")); second <= first {
		t.Errorf("token %d after %d", second, first)
	}
}

// TestReadFence: the service keeps the letters of a name, and takes it for the
// same in any.
func TestReadFence(t *testing.T) {
	text := "7 mark"
	for _, name := range []string{"lockfence", "Lockfence", "LOCKFENCE"} {
		other := "red"
		token, mark, entry := readFence(map[string]*string{"color": &other, name: &text})
		if token != 7 || mark != "mark" || entry != name {
			t.Errorf("%s: %d, %q, %q", name, token, mark, entry)
		}
	}
}

// TestNext: a token is above the last, not below the service's second, and
// within it this machine's clock counts.
func TestNext(t *testing.T) {
	service := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := service.UnixMicro()
	for _, test := range []struct {
		what string
		last int64
		here time.Time
		want int64
	}{
		{"the clocks agree", 0, service.Add(250 * time.Millisecond), at + 250_000},
		{"ours is behind", 0, service.Add(-time.Hour), at},
		{"ours is ahead", 0, service.Add(time.Hour), at + 999_999},
		{"the last is ahead", at + 5_000_000, service, at + 5_000_001},
	} {
		if token, err := next(test.last, service, test.here); err != nil || token != test.want {
			t.Errorf("%s: %d, %v, want %d", test.what, token, err, test.want)
		}
	}
	if token, err := next(0, time.Time{}, service); err != nil || token != at {
		t.Errorf("a service without a date: %d, %v", token, err)
	}
	if _, err := next(exact, service, service); !errors.Is(err, lockspec.ErrConfig) {
		t.Errorf("after 2^53: %v", err)
	}
}
