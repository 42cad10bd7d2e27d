package azureblob

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/azureblob/relay"
	"github.com/lockcheck/lockcheck/reference/backends/interference"
)

// Started is an emulator that the harness started itself. Faults act on no
// other.
type Started interface {
	Addr() string                      // host:port; may change with a restart
	Restart(ctx context.Context) error // as a crash does: it forgets everything
	Pause() error
	Resume() error
}

// Faults are the powers over an emulator that was started for a run. Clients
// reach it by a relay, which counts, loses and holds back requests.
type Faults struct {
	server    Started
	opts      Options
	container string
	relay     *relay.Relay

	silence interference.Silence
	mu      sync.Mutex
	admin   *Backend          // past the relay
	seeded  map[string]string // by key, the foreign owner
}

var _ interface {
	contract.TrafficCounter
	contract.Interferer
	contract.Evicter
	contract.Restarter
	contract.Stopper
	contract.Inspector
	contract.Emptier
	contract.Misdirector
	contract.Pinger
} = (*Faults)(nil)

// NewFaults creates the container in the emulator and puts a relay before it.
// The options are those of the clients, with the account's key.
func NewFaults(ctx context.Context, server Started, containerName string, opts *Options) (*Faults, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Key == "" {
		return nil, fmt.Errorf("%w: powers over an emulator need its account's key", lockspec.ErrConfig)
	}
	f := &Faults{server: server, opts: o, container: containerName, seeded: map[string]string{}}
	path := "/" + o.Account + "/" + containerName
	if f.relay, err = relay.New(server.Addr(), o.protocol(path)); err != nil {
		return nil, err
	}
	if err := f.begin(ctx); err != nil {
		return nil, errors.Join(err, f.relay.Close())
	}
	return f, nil
}

// begin makes the container anew, and a way to it.
func (f *Faults) begin(ctx context.Context) error {
	b, err := New(f.at(f.server.Addr(), f.container), &f.opts)
	if err != nil {
		return err
	}
	f.mu.Lock()
	if f.admin != nil {
		_ = f.admin.Close()
	}
	f.admin = b
	clear(f.seeded)
	f.mu.Unlock()
	ctx, cancel := bounded(ctx)
	defer cancel()
	if _, err := b.container.Create(ctx, nil); code(err) != bloberror.ContainerAlreadyExists {
		return translate(err)
	}
	return nil
}

func (f *Faults) at(addr, containerName string) string {
	return "http://" + addr + "/" + f.opts.Account + "/" + containerName
}

// URL is where clients reach the container.
func (f *Faults) URL() string { return f.at(f.relay.Addr(), f.container) }

// Addr is where clients reach the emulator.
func (f *Faults) Addr() string { return f.relay.Addr() }

// Close ends the relay and its connections, not the emulator.
func (f *Faults) Close() error { return errors.Join(f.relay.Close(), f.way().Close()) }

// way is the harness's own way to the emulator.
func (f *Faults) way() *Backend {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.admin
}

// Requests implements contract.TrafficCounter.
func (f *Faults) Requests(_ context.Context, op, key string) (int, error) {
	return f.relay.Requests(op, key), nil
}

// Interfere implements contract.Interferer.
func (f *Faults) Interfere(_ context.Context, what contract.Interference, op, key string, times int) (contract.Struck, error) {
	return f.relay.Interfere(interference.Kind(what), op, key, times)
}

// guardOf is the blob of a key.
func (f *Faults) guardOf(key string) (*blob.Client, string) {
	name := f.opts.blobName(key)
	return f.way().container.NewBlobClient(name), name
}

// Evict implements contract.Evicter: an operator breaks the lease and deletes
// the guard, which takes the token too.
func (f *Faults) Evict(ctx context.Context, key string) error {
	broken := f.Break(ctx, key, 0)
	if broken != nil && !errors.Is(broken, lockspec.ErrNotHeld) {
		return broken
	}
	_, name := f.guardOf(key)
	return errors.Join(f.way().remove(ctx, name), broken)
}

// Break ends the lease of a key after the time, which takes no id: whoever may
// write can.
func (f *Faults) Break(ctx context.Context, key string, after time.Duration) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	at, _ := f.guardOf(key)
	was, err := breakLease(ctx, at, after)
	if err == nil && !was {
		return fmt.Errorf("%w: break: nobody holds the key", lockspec.ErrNotHeld)
	}
	return err
}

// Restart implements contract.Restarter.
func (f *Faults) Restart(ctx context.Context) error {
	defer f.silence.Begin()()
	if err := f.server.Restart(ctx); err != nil {
		return err
	}
	if err := f.begin(ctx); err != nil {
		return err
	}
	f.relay.Move(f.server.Addr())
	return nil
}

// Stop implements contract.Stopper: the emulator's process stands still.
func (f *Faults) Stop(context.Context) error { return f.silence.Stop(f.server.Pause) }

// Continue implements contract.Stopper.
func (f *Faults) Continue(context.Context) error { return f.silence.Continue(f.server.Resume) }

// Ping implements contract.Pinger: it asks the emulator itself, past the relay.
// Whoever refuses an answer lives.
func (f *Faults) Ping(ctx context.Context) error {
	return f.silence.Ping(ctx, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+f.server.Addr()+"/", nil)
		if err != nil {
			return err
		}
		reply, err := f.way().transport.RoundTrip(r)
		if err != nil {
			return err
		}
		return reply.Body.Close()
	})
}

// Inspect implements contract.Inspector. The service tells nobody the id of a
// lease. Whoever was seeded is known; of any other holder the mark is told that
// stands beside his token.
func (f *Faults) Inspect(ctx context.Context, key string) ([]contract.Holder, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	at, _ := f.guardOf(key)
	p, err := at.GetProperties(ctx, nil)
	switch {
	case code(err) == bloberror.BlobNotFound:
		return nil, nil
	case err != nil:
		return nil, translate(err)
	case p.LeaseStatus == nil || *p.LeaseStatus != lease.StatusTypeLocked:
		return nil, nil
	}
	token, mark, _ := readFence(p.Metadata)
	h := contract.Holder{Owner: mark, Token: token}
	f.mu.Lock()
	stranger, seeded := f.seeded[key]
	f.mu.Unlock()
	if seeded {
		id := leaseID(stranger)
		_, err := at.GetProperties(ctx, &blob.GetPropertiesOptions{AccessConditions: &blob.AccessConditions{
			LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: &id}}})
		if err == nil {
			h.Owner = stranger
		}
	}
	return []contract.Holder{h}, nil
}

// Seed implements contract.Inspector: the stranger is granted the key as
// anybody is, with a token, once its holder is gone. A lease longer than the
// service grants becomes one without an end.
func (f *Faults) Seed(ctx context.Context, key, owner string, length time.Duration) error {
	if err := f.Break(ctx, key, 0); err != nil && !errors.Is(err, lockspec.ErrNotHeld) {
		return err
	}
	c := reference.Claim{Key: key, Owner: owner, Lease: min(max(length, LeaseMin), LeaseMax), Count: 1}
	b := f.way()
	if _, err := b.Attempt(ctx, c); err != nil {
		return err
	}
	f.mu.Lock()
	f.seeded[key] = owner
	f.mu.Unlock()
	if length <= LeaseMax {
		return nil
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err := b.guard(c).lease.AcquireLease(ctx, -1, nil)
	return translate(err)
}

// Empty implements contract.Emptier: no guard is there.
func (f *Faults) Empty(ctx context.Context) error { return f.way().Sweep(ctx) }

// OpenAt implements contract.Misdirector.
func (f *Faults) OpenAt(_ context.Context, what contract.Misdirection) (lockspec.Client, error) {
	o, to := f.opts, f.URL()
	switch what {
	case contract.WrongCredentials:
		o.Key = base64.StdEncoding.EncodeToString([]byte(rand.Text() + rand.Text()))
	case contract.MissingStorage:
		to = f.at(f.relay.Addr(), "no-such-container")
	case contract.ReadOnly:
		var err error
		if o.SAS, err = f.signature(sas.ContainerPermissions{Read: true, List: true}); err != nil {
			return nil, err
		}
		o.Key = ""
	default:
		return nil, fmt.Errorf("%w: Azure has no clients %s", lockspec.ErrUnsupported, what)
	}
	b, err := New(to, &o)
	if err != nil {
		return nil, err
	}
	e, err := reference.New(b, nil)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return e.Client(), nil
}

// signature is a SAS for the container that allows so much, for an hour.
func (f *Faults) signature(may sas.ContainerPermissions) (string, error) {
	text, err := f.way().container.GetSASURL(may, time.Now().Add(time.Hour), nil)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	return u.RawQuery, nil
}

// Guards are the names of all blobs in the container.
func (f *Faults) Guards(ctx context.Context) (names []string, err error) {
	pager := f.way().container.NewListBlobsFlatPager(nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, translate(err)
		}
		for _, item := range page.Segment.BlobItems {
			names = append(names, *item.Name)
		}
	}
	return names, nil
}
