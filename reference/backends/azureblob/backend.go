package azureblob

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
)

// Backend is the way to one container. It is a [reference.Backend].
type Backend struct {
	opts      Options
	container *container.Client
	transport *http.Transport // its own; nil: the user's

	mu   sync.Mutex
	held map[string]tenure // by key, what was granted here and not given back
}

// tenure is what this process knows of its own grant.
type tenure struct {
	owner  string
	token  int64
	length time.Duration // that renewals renew
}

var _ reference.Backend = (*Backend)(nil)

// New is a way to the container with the URL, https://HOST/CONTAINER. Nothing
// is asked of the service yet. An error matches ErrConfig and lists all that is
// wrong with the options.
func New(containerURL string, opts *Options) (*Backend, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Backend{opts: o, held: map[string]tenure{}}
	var way http.RoundTripper = o.Transport
	if way == nil {
		b.transport = newTransport()
		way = b.transport
	}
	b.container, err = dial(containerURL, &o, way)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", lockspec.ErrConfig, err)
	}
	return b, nil
}

func dial(containerURL string, o *Options, way http.RoundTripper) (*container.Client, error) {
	c := &container.ClientOptions{}
	c.Transport = &http.Client{Transport: way}
	// Whoever sends a request again behind the engine's back finds his own
	// grant and takes it for another's; and a renewal that waits for what the
	// service says in Retry-After comes too late.
	c.Retry = policy.RetryOptions{MaxRetries: -1}
	c.Telemetry = policy.TelemetryOptions{Disabled: true}
	switch {
	case o.Key != "":
		key, err := container.NewSharedKeyCredential(o.Account, o.Key)
		if err != nil {
			return nil, errors.New("the account key is no base64")
		}
		return container.NewClientWithSharedKeyCredential(containerURL, key, c)
	case o.SAS != "":
		return container.NewClientWithNoCredential(containerURL+"?"+o.SAS, c)
	}
	return container.NewClient(containerURL, o.Credential, c)
}

// idleLimit is how long an unused connection is kept: less than a server that
// closes it soon does, 5 s by default in Azurite. A request that meets the end
// of its connection is lost, and must not be sent again by itself.
const idleLimit = 4 * time.Second

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:        http.ProxyFromEnvironment,
		DialContext:  (&net.Dialer{Timeout: callLimit}).DialContext,
		MaxIdleConns: 256, MaxIdleConnsPerHost: 128, IdleConnTimeout: idleLimit,
		TLSHandshakeTimeout: callLimit, DisableCompression: true,
	}
}

// callLimit bounds one request, dialling included.
const callLimit = 5 * time.Second

// bounded is a context for one call of the service: it ends with ctx and after
// callLimit, and has no deadline of another clock than this machine's, which an
// engine's need not be.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
	stop := context.AfterFunc(ctx, cancel)
	return within, func() { stop(); cancel() }
}

// Describe implements reference.Backend. A release that reaches a lease just
// after its end is answered ok as long as nobody else took it: so releases are
// not claimed to be checked.
func (b *Backend) Describe() lockspec.Description {
	hazards, _ := lockspec.Leased.Ceiling()
	d := lockspec.Description{
		Name: "azureblob (azblob " + sdkVersion() + ")", Class: lockspec.Leased, Hazards: hazards,
		Features: []lockspec.Feature{lockspec.StrictTry},
		Bounds:   lockspec.Bounds{LeaseMin: LeaseMin, LeaseMax: LeaseMax, Takeover: b.opts.Takeover},
	}
	if !b.opts.Unfenced {
		d.Features = append(d.Features, lockspec.Fencing)
	}
	return d
}

// Timing implements reference.Backend.
func (b *Backend) Timing() reference.Timing { return reference.Expiring(b.opts.Lease) }

// Close implements reference.Backend.
func (b *Backend) Close() error {
	if b.transport != nil {
		b.transport.CloseIdleConnections()
	}
	return nil
}

// Attempt implements reference.Backend. It asks for the lease under an id that
// is the owner's alone, so that the same owner is granted it again and nobody
// else is.
func (b *Backend) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	length, err := whole(c.Lease)
	if err != nil {
		return reference.Grant{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	g := b.guard(c)
	now, err := g.acquire(ctx, length)
	var made *azcore.ETag
	if code(err) == bloberror.BlobNotFound {
		if made, err = g.create(ctx); err == nil {
			now, err = g.acquire(ctx, length)
		}
	}
	if err != nil {
		return reference.Grant{}, ended(ctx, translate(err))
	}
	t := tenure{owner: c.Owner, length: length}
	if !b.opts.Unfenced {
		if t.token, err = g.fence(ctx, now, made); err != nil {
			return reference.Grant{}, b.takeBack(ctx, g, err)
		}
	}
	b.mu.Lock()
	b.held[c.Key] = t
	b.mu.Unlock()
	return reference.Grant{Token: t.token, Lease: length}, nil
}

// takeBack gives a lease back that came without a token. Only if that is known
// to have worked was nothing granted.
func (b *Backend) takeBack(ctx context.Context, g guard, err error) error {
	err = translate(err)
	if errors.Is(err, lockspec.ErrConfig) && g.release(ctx) == nil {
		return err
	}
	return fmt.Errorf("%w: the lease was granted, its token not: %w", lockspec.ErrUnavailable, cause{err})
}

// cause is an error that is told, and has no say in the outcome.
type cause struct{ err error }

func (c cause) Error() string { return c.err.Error() }

// whole is a lease in the unit that the service grants, not shorter than what
// the holder relies on.
func whole(lease time.Duration) (time.Duration, error) {
	up := (lease + time.Second - 1).Truncate(time.Second)
	if up < LeaseMin || up > LeaseMax {
		return 0, fmt.Errorf("%w: lease %v is not within what the service grants, %v to %v", lockspec.ErrConfig, lease, LeaseMin, LeaseMax)
	}
	return up, nil
}

// Renew implements reference.Backend. The service renews for as long as it
// granted; a lease of another length has to be acquired, and to be renewed
// first, so that no lease is brought back that had ended or was broken.
func (b *Backend) Renew(ctx context.Context, c reference.Claim) error {
	length, err := whole(c.Lease)
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	g := b.guard(c)
	if err := g.renew(ctx); err != nil {
		return b.gone(ctx, g, err)
	}
	b.mu.Lock()
	t, known := b.held[c.Key]
	b.mu.Unlock()
	if !known || t.owner != c.Owner || t.length == length {
		return nil
	}
	if _, err := g.acquire(ctx, length); err != nil {
		return b.gone(ctx, g, err)
	}
	t.length = length
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held[c.Key].owner == c.Owner {
		b.held[c.Key] = t
	}
	return nil
}

// Release implements reference.Backend.
func (b *Backend) Release(ctx context.Context, c reference.Claim) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	g := b.guard(c)
	if err := g.release(ctx); err != nil {
		return b.gone(ctx, g, err)
	}
	b.forget(c)
	return nil
}

func (b *Backend) forget(c reference.Claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held[c.Key].owner == c.Owner {
		delete(b.held, c.Key)
	}
}

// gone is the answer to a holder whose request was refused. The service says
// that the lease is not his; whether another has it is asked for.
func (b *Backend) gone(ctx context.Context, g guard, err error) error {
	err = translate(err)
	switch {
	case errors.Is(err, lockspec.ErrBusy): // it was broken and taken between a renewal and the new length
		b.forget(g.claim)
		return &reference.LostError{Reason: reference.TakenOver, Err: err}
	case !errors.Is(err, lockspec.ErrLost):
		if kind := (*refusal.Error)(nil); errors.As(err, &kind) && kind.Setting == "CONTAINER" {
			b.forget(g.claim)
			return &reference.LostError{Reason: reference.Expired, Err: err}
		}
		return ended(ctx, err)
	}
	b.forget(g.claim)
	why := reference.Expired
	if p, asked := g.blob.GetProperties(ctx, nil); asked == nil && p.LeaseState != nil &&
		(*p.LeaseState == lease.StateTypeLeased || *p.LeaseState == lease.StateTypeBreaking) && code(err) == bloberror.LeaseIDMismatchWithLeaseOperation {
		why = reference.TakenOver
	}
	return &reference.LostError{Reason: why, Err: err}
}

// ended is an error of a call, or the end of its context where that explains it.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == context.Canceled && errors.Is(err, lockspec.ErrUnavailable) {
		return context.Canceled
	}
	return err
}
