package azureblob

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// TestService: what the service does and this package makes of it, on one
// Azurite that all share. Each has a key of its own, and most wait for a lease
// to end.
func TestService(t *testing.T) {
	l := own(t)
	for name, test := range map[string]func(t *testing.T, l *lab){
		"protocol":                    protocolOf(nil),
		"protocol, unfenced":          protocolOf(unfenced),
		"own lease":                   ownLease,
		"reasons":                     reasons,
		"first users":                 firstUsers,
		"existing blob":               existingBlob,
		"existing blob that is taken": existingLeased,
		"length":                      length,
		"length of a renewal":         renewalLength,
		"lease out of range":          outOfRange,
		"tokens":                      tokens,
		"tokens that cannot rise":     tokensAtEnd,
		"late token":                  lateToken,
		"foreign metadata":            foreignMetadata,
		"guard":                       guardWrites,
		"guard, unfenced":             guardUnfenced,
		"sticky loss":                 stickyLoss,
		"expired and written":         expiredWritten,
		"expired and released":        expiredReleased,
		"broken":                      broken,
		"breaking":                    breaking,
		"deleted guard":               deletedGuard,
		"lost reply":                  lostReply,
		"no orphan":                   noOrphan,
		"sweep":                       sweep,
		"look":                        look,
		"key that is a digest":        digestKey,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

func protocolOf(change func(*Options)) func(*testing.T, *lab) {
	return func(t *testing.T, l *lab) {
		b := l.straight(t, change)
		key := newKey("protocol")
		a, other := claim(key, "a"), claim(key, "b")
		first := grant(t, b, a)
		expect(t, "another's attempt", attempt(t, b, other), lockspec.ErrBusy)
		expect(t, "another's renewal", b.Renew(t.Context(), other), lockspec.ErrLost)
		expect(t, "another's release", b.Release(t.Context(), other), lockspec.ErrLost)
		expect(t, "renewal", b.Renew(t.Context(), a), nil)
		expect(t, "release", b.Release(t.Context(), a), nil)
		expect(t, "second release", b.Release(t.Context(), a), lockspec.ErrLost)
		expect(t, "renewal after it", b.Renew(t.Context(), a), lockspec.ErrLost)
		second := grant(t, b, other)
		if b.opts.Unfenced && (first != 0 || second != 0) {
			t.Errorf("tokens %d, %d without an entry", first, second)
		}
		if !b.opts.Unfenced && (first <= 0 || second <= first) {
			t.Errorf("tokens %d, %d", first, second)
		}
		if entry := lookup(properties(t, b, key).Metadata, FenceEntry); (entry == "") != b.opts.Unfenced {
			t.Errorf("the entry is %q", entry)
		}
	}
}

// ownLease: whoever holds a key finds out by asking again, and is granted the
// same token.
func ownLease(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	key := newKey("own")
	first := grant(t, b, claim(key, "a"))
	if again := grant(t, l.straight(t, nil), claim(key, "a")); again != first {
		t.Errorf("token %d, then %d", first, again)
	}
	expect(t, "another's attempt", attempt(t, b, claim(key, "b")), lockspec.ErrBusy)
}

// reasons: a loss says whether the key is another's.
func reasons(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	key := newKey("reasons")
	grant(t, b, claim(key, "a"))
	for what, call := range map[string]func(context.Context, reference.Claim) error{"renew": b.Renew, "release": b.Release} {
		if r := reason(t, call(t.Context(), claim(key, "b"))); r != reference.TakenOver {
			t.Errorf("%s of what another holds: %s", what, r)
		}
		if r := reason(t, call(t.Context(), claim(newKey("nothing"), "b"))); r != reference.Expired {
			t.Errorf("%s of what is not there: %s", what, r)
		}
	}
	must(t, b.Release(t.Context(), claim(key, "a")))
	if r := reason(t, b.Renew(t.Context(), claim(key, "a"))); r != reference.Expired {
		t.Errorf("renewal of what nobody holds: %s", r)
	}
}

// firstUsers of one key come at once: one is granted it, the others are told
// busy, and none is told of the guard that was not there.
func firstUsers(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	key := newKey("first")
	var all sync.WaitGroup
	answers := make([]error, 20)
	for i := range answers {
		all.Go(func() { _, answers[i] = b.Attempt(t.Context(), claim(key, string(rune('a'+i)))) })
	}
	all.Wait()
	won := 0
	for _, err := range answers {
		if err == nil {
			won++
		} else {
			expect(t, "the attempt of another", err, lockspec.ErrBusy)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d were granted the key", won, len(answers))
	}
}

// existingBlob: what is under the key stays as it is, but for one entry.
func existingBlob(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	key := newKey("existing")
	put(t, b, key, "precious", map[string]string{"color": "red"})
	must(t, func() error { grant(t, b, claim(key, "a")); return b.Release(t.Context(), claim(key, "a")) }())
	if got := content(t, b, key); got != "precious" {
		t.Errorf("the blob now holds %q", got)
	}
	p := properties(t, b, key)
	if lookup(p.Metadata, "color") != "red" || lookup(p.Metadata, FenceEntry) == "" || len(p.Metadata) != 2 {
		t.Errorf("its metadata is %v", p.Metadata)
	}
	plain := l.straight(t, unfenced)
	key = newKey("existing")
	put(t, plain, key, "precious", map[string]string{"color": "red"})
	before := properties(t, plain, key).ETag
	grant(t, plain, claim(key, "a"))
	must(t, plain.Renew(t.Context(), claim(key, "a")))
	must(t, plain.Release(t.Context(), claim(key, "a")))
	if after := properties(t, plain, key).ETag; *after != *before {
		t.Error("without tokens the blob was written all the same")
	}
}

// existingLeased: the guard that a slow first user wants to create is there and
// leased by then. The service says so in one of several ways; none is an error.
func existingLeased(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	key := newKey("leased")
	grant(t, b, claim(key, "a"))
	for range 2 {
		if made, err := b.guard(claim(key, "b")).create(t.Context()); made != nil || err != nil {
			t.Errorf("create of what exists: %v, %v", made, err)
		}
		_ = b.Release(t.Context(), claim(key, "a"))
	}
}

// length: what is granted is in whole seconds, not shorter than what was asked
// for, and the service keeps it for so long.
func length(t *testing.T, l *lab) {
	b := l.straight(t, unfenced)
	c := claim(newKey("length"), "a")
	c.Lease = LeaseMin + time.Nanosecond
	begin := time.Now()
	g, err := b.Attempt(t.Context(), c)
	must(t, err)
	if g.Lease != LeaseMin+time.Second {
		t.Errorf("%v was granted of %v", g.Lease, c.Lease)
	}
	for limit := begin.Add(2 * LeaseMin); attempt(t, b, claim(c.Key, "b")) != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it never expired")
		}
	}
	if took := time.Since(begin); took < g.Lease-time.Millisecond { // the service counts milliseconds
		t.Errorf("the lease of %v was over after %v", g.Lease, took)
	}
}

// renewalLength: a renewal may ask for another length, and later ones keep it.
func renewalLength(t *testing.T, l *lab) {
	b := l.straight(t, unfenced)
	c := claim(newKey("renewal"), "a")
	c.Lease = 40 * time.Second
	grant(t, b, c)
	must(t, b.Renew(t.Context(), c))
	c.Lease = LeaseMin
	must(t, b.Renew(t.Context(), c))
	sent := time.Now()
	must(t, b.Renew(t.Context(), c))
	expire(t, b, c.Key)
	if took := time.Since(sent); took > LeaseMin+10*time.Second {
		t.Errorf("renewed for %v, and expired after %v", LeaseMin, took)
	}
	// What was broken in between is not acquired again for the sake of a length.
	c = claim(newKey("renewal"), "a")
	grant(t, b, c)
	must(t, l.Break(t.Context(), c.Key, 0))
	c.Lease = 40 * time.Second
	expect(t, "longer renewal of what was broken", b.Renew(t.Context(), c), lockspec.ErrLost)
	expect(t, "another's attempt then", attempt(t, b, claim(c.Key, "b")), nil)
}

func outOfRange(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	for _, lease := range []time.Duration{0, 14 * time.Second, LeaseMax + 1, -1} {
		c := claim(newKey("range"), "a")
		c.Lease = lease
		if err := attempt(t, b, c); !errors.Is(err, lockspec.ErrConfig) || !strings.Contains(err.Error(), "15s to 1m0s") {
			t.Errorf("lease %v: %v", lease, err)
		}
		expect(t, "renewal", b.Renew(t.Context(), c), lockspec.ErrConfig)
	}
}

// stickyLoss: the service renews a lease that has expired; a handle that was
// lost by its own clock stays so, and is renewed no more.
func stickyLoss(t *testing.T, l *lab) {
	b := l.through(t, nil)
	e, err := reference.New(b, nil)
	must(t, err)
	defer e.Close()
	key := newKey("sticky")
	h, err := e.TryAcquire(t.Context(), key, &reference.AcquireOptions{Lease: LeaseMin, Renew: lockspec.RenewManual})
	must(t, err)
	<-h.Done()
	expire(t, b, key)
	expect(t, "renewal by hand after the loss", h.Renew(t.Context(), 0), lockspec.ErrLost)
	if n, _ := l.Requests(t.Context(), "renew", key); n != 0 {
		t.Errorf("%d renewals were sent after the loss", n)
	}
	// The service itself would have.
	at := b.guard(reference.Claim{Key: key, Owner: ownerOf(b, key)})
	must(t, at.renew(t.Context()))
	if h.Held() {
		t.Error("it is held again")
	}
	expect(t, "release after the loss", h.Release(t.Context()), lockspec.ErrLost)
	expect(t, "the next attempt", attempt(t, b, claim(key, "b")), nil) // the release gave the key back
}

func ownerOf(b *Backend, key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[key].owner
}

// expiredWritten: a lease that expired, and whose guard was written since, is
// not renewed by the service.
func expiredWritten(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	c := claim(newKey("written"), "a")
	grant(t, b, c)
	expire(t, b, c.Key)
	put(t, b, c.Key, "by another", nil)
	expect(t, "renewal", b.Renew(t.Context(), c), lockspec.ErrLost)
	_, err := b.container.NewBlobClient(b.opts.blobName(c.Key)).SetMetadata(t.Context(), nil,
		&blob.SetMetadataOptions{AccessConditions: b.guard(c).conditions(nil)})
	if !errors.Is(translate(err), lockspec.ErrLost) { // Azure itself may take it, or say LeaseLost
		t.Errorf("a write with an expired id: %v", err)
	}
}

// expiredReleased: the service takes one release of an expired lease, and no
// other. That is why releases are not claimed to be checked.
func expiredReleased(t *testing.T, l *lab) {
	b := l.straight(t, unfenced)
	c := claim(newKey("released"), "a")
	grant(t, b, c)
	expire(t, b, c.Key)
	expect(t, "release after the end", b.Release(t.Context(), c), nil)
	expect(t, "another one", b.Release(t.Context(), c), lockspec.ErrLost)
	d := b.Describe()
	if d.Claims(lockspec.OwnerChecked) {
		t.Error("releases are claimed to be checked")
	}
}

// broken: anybody can break a lease; its holder learns it at once, and the
// next is granted the key.
func broken(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	c := claim(newKey("broken"), "a")
	first := grant(t, b, c)
	must(t, l.Break(t.Context(), c.Key, 0))
	expect(t, "renewal", b.Renew(t.Context(), c), lockspec.ErrLost)
	if second := grant(t, b, claim(c.Key, "b")); second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	expect(t, "renewal by the former holder", b.Renew(t.Context(), c), lockspec.ErrLost)
	expect(t, "release by the former holder", b.Release(t.Context(), c), lockspec.ErrLost)
	expect(t, "renewal by the next", b.Renew(t.Context(), claim(c.Key, "b")), nil)
	expect(t, "break of what nobody holds", l.Break(t.Context(), newKey("nothing"), 0), lockspec.ErrNotHeld)
}

// breaking: until a broken lease has run out, the key is nobody's to take, not
// its holder's either.
func breaking(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	c := claim(newKey("breaking"), "a")
	grant(t, b, c)
	must(t, l.Break(t.Context(), c.Key, 10*time.Second))
	expect(t, "renewal", b.Renew(t.Context(), c), lockspec.ErrLost)
	expect(t, "attempt by the holder", attempt(t, b, c), lockspec.ErrBusy)
	expect(t, "attempt by another", attempt(t, b, claim(c.Key, "b")), lockspec.ErrBusy)
	expect(t, "release", b.Release(t.Context(), c), nil) // it makes the key free
	expect(t, "attempt by another then", attempt(t, b, claim(c.Key, "b")), nil)
}

// lostReply: the reply to an acquisition is lost. It was sent once, the
// engine's next attempt finds its own grant and not another's.
func lostReply(t *testing.T, l *lab) {
	for _, change := range []func(*Options){nil, unfenced} {
		e, err := reference.New(l.through(t, change), &reference.Options{AttemptTimeout: 500 * time.Millisecond})
		must(t, err)
		defer e.Close()
		key := newKey("reply")
		lost, err := l.Interfere(t.Context(), "drop-reply", "acquire", key, 1)
		must(t, err)
		h, err := e.Acquire(t.Context(), key, &reference.AcquireOptions{Wait: 20 * time.Second})
		must(t, err)
		must(t, lost.Await(t.Context()))
		if n, _ := l.Requests(t.Context(), "acquire", key); n < 2 {
			t.Errorf("%d attempts reached the service, want the lost one and another", n)
		}
		must(t, h.Release(t.Context()))
	}
}

// noOrphan: an attempt whose reply was lost, and that nobody repeats, is given
// back long before its lease ends.
func noOrphan(t *testing.T, l *lab) {
	e, err := reference.New(l.through(t, nil), &reference.Options{AttemptTimeout: 500 * time.Millisecond})
	must(t, err)
	defer e.Close()
	key := newKey("orphan")
	_, err = l.Interfere(t.Context(), "drop-reply", "acquire", key, 1)
	must(t, err)
	_, err = e.TryAcquire(t.Context(), key, nil)
	expect(t, "the attempt", err, lockspec.ErrUnavailable)
	if errors.Is(err, lockspec.ErrBusy) {
		t.Error("it is busy with itself")
	}
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		held, err := l.Inspect(t.Context(), key)
		must(t, err)
		if len(held) == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%v still holds the key", held)
		}
	}
}

// TestForeignClock: an engine's clock need not run as this machine's: its
// deadlines say nothing to a socket, and a call ends in time all the same.
func TestForeignClock(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	ctx, end := bounded(pastDeadline{parent})
	defer end()
	if at, ok := ctx.Deadline(); !ok || time.Until(at) < callLimit/2 || ctx.Err() != nil {
		t.Errorf("the call may take until %v", at)
	}
	cancel()
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
		t.Error("a call goes on whose engine has given it up")
	}
}

// pastDeadline has a deadline that passed on another clock only.
type pastDeadline struct{ context.Context }

func (pastDeadline) Deadline() (time.Time, bool) { return time.Now().Add(-time.Hour), true }

// sweep removes what has the prefix, held or not, and nothing else.
func sweep(t *testing.T, l *lab) {
	b := l.straight(t, func(o *Options) { o.Prefix = "sweep-1/" })
	kept := l.straight(t, func(o *Options) { o.Prefix = "sweep-10/" })
	grant(t, kept, claim("k", "a"))
	grant(t, b, claim("held", "a"))
	grant(t, b, claim(strings.Repeat("\u2603", 512), "a"))
	grant(t, b, claim("/free", "a"))
	must(t, b.Release(t.Context(), claim("/free", "a")))
	must(t, b.Sweep(t.Context()))
	for _, key := range []string{"held", "/free", strings.Repeat("\u2603", 512)} {
		if _, err := b.container.NewBlobClient(b.opts.blobName(key)).GetProperties(t.Context(), nil); code(err) != bloberror.BlobNotFound {
			t.Errorf("the guard of %.20q is left: %v", key, err)
		}
	}
	expect(t, "renewal below another prefix", kept.Renew(t.Context(), claim("k", "a")), nil)
}

// look tells what answers, and leaves no guard.
func look(t *testing.T, l *lab) {
	b := l.straight(t, func(o *Options) { o.Prefix = "look/" })
	s, err := b.Look(t.Context())
	must(t, err)
	if !s.Emulator || !strings.HasPrefix(s.Name, "Azurite-Blob/") {
		t.Errorf("%+v", s)
	}
	pager := b.container.NewListBlobsFlatPager(nil)
	for pager.More() {
		page, err := pager.NextPage(t.Context())
		must(t, err)
		for _, item := range page.Segment.BlobItems {
			if strings.HasPrefix(*item.Name, "look/") {
				t.Errorf("%s is left", *item.Name)
			}
		}
	}
}

// digestKey: a key that is too long for a name is a lock like any other.
func digestKey(t *testing.T, l *lab) {
	b := l.straight(t, nil)
	one, other := strings.Repeat("\u2603", 511)+"a", strings.Repeat("\u2603", 511)+"b"
	grant(t, b, claim(one, "a"))
	expect(t, "the other key", attempt(t, b, claim(other, "b")), nil)
	expect(t, "the same key", attempt(t, b, claim(one, "b")), lockspec.ErrBusy)
}
