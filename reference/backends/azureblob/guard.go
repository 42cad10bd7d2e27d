package azureblob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"runtime/debug"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// guard is one owner's way to the blob of one key.
type guard struct {
	claim reference.Claim
	id    string
	blob  *blob.Client
	lease *lease.BlobClient
	all   *container.Client
	name  string
}

func (b *Backend) guard(c reference.Claim) guard {
	g := guard{claim: c, id: leaseID(c.Owner), name: b.opts.blobName(c.Key), all: b.container}
	g.blob = b.container.NewBlobClient(g.name)
	// An id of our own is not drawn, which is the only thing that could fail.
	g.lease, _ = lease.NewBlobClient(g.blob, &lease.BlobClientOptions{LeaseID: &g.id})
	return g
}

// leaseID is the GUID that an owner proposes. An engine's owners are 128 random
// bits; of any other the digest stands for it.
func leaseID(owner string) string {
	h := owner
	if raw, err := hex.DecodeString(owner); err != nil || len(raw) != 16 || strings.ToLower(owner) != owner {
		sum := sha256.Sum256([]byte(owner))
		h = hex.EncodeToString(sum[:16])
	}
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:32]
}

// acquire is one request for the lease. It tells the service's time, zero where
// that is not told.
func (g guard) acquire(ctx context.Context, length time.Duration) (now time.Time, err error) {
	r, err := g.lease.AcquireLease(ctx, int32(length/time.Second), nil)
	if err == nil && r.Date != nil {
		now = *r.Date
	}
	return now, err
}

func (g guard) renew(ctx context.Context) error {
	_, err := g.lease.RenewLease(ctx, nil)
	return err
}

func (g guard) release(ctx context.Context) error {
	_, err := g.lease.ReleaseLease(ctx, nil)
	return err
}

// create makes the guard, empty, unless there is one, and tells the version of
// what it made. That there is one is told
// by different codes: of a leased blob Azure says that the lease's id is
// missing, some Azurites that it exists
// (https://github.com/Azure/Azurite/issues/2637).
func (g guard) create(ctx context.Context) (*azcore.ETag, error) {
	none := azcore.ETagAny
	made, err := g.all.NewBlockBlobClient(g.name).Upload(ctx, streaming.NopCloser(bytes.NewReader(nil)), &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &none}},
	})
	switch code(err) {
	case bloberror.BlobAlreadyExists, bloberror.LeaseIDMissing, bloberror.ConditionNotMet:
		return nil, nil
	}
	return made.ETag, err
}

// Guard is the blob of a key that is held, for its holder to write to. With the
// conditions on every write the service itself refuses what a former holder
// still sends.
//
// A write takes all metadata with it that it does not repeat, the token among
// it; see [Backend.Guard].
type Guard struct {
	Blob       *blockblob.Client
	Conditions *blob.AccessConditions
}

// Guard is the guard of the key, for the holder whom this backend granted it
// with the token. ErrNotHeld: this backend knows of no such tenure, or it is
// over. ErrUnsupported: without tokens nobody can tell one tenure from the
// next.
//
// Who writes the blob anew passes [Backend.Metadata] on with it.
func (b *Backend) Guard(key string, token int64) (*Guard, error) {
	if b.opts.Unfenced {
		return nil, lockspec.ErrUnsupported
	}
	b.mu.Lock()
	t, ok := b.held[key]
	b.mu.Unlock()
	if !ok || t.token != token {
		return nil, lockspec.ErrNotHeld
	}
	id := leaseID(t.owner)
	return &Guard{
		Blob:       b.container.NewBlockBlobClient(b.opts.blobName(key)),
		Conditions: &blob.AccessConditions{LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: &id}},
	}, nil
}

const sdkPath = "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

// sdkVersion is the version of the client in this program.
func sdkVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == sdkPath {
				return d.Version
			}
		}
	}
	return "of unknown version"
}

// markOf is the mark of a lease id.
func markOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

// Metadata is what a write of the guard's content has to pass on, lest it take
// the token away with it.
func (b *Backend) Metadata(ctx context.Context, key string, token int64) (map[string]*string, error) {
	b.mu.Lock()
	t, ok := b.held[key]
	b.mu.Unlock()
	if !ok || t.token != token {
		return nil, lockspec.ErrNotHeld
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	g := b.guard(reference.Claim{Key: key, Owner: t.owner})
	p, err := g.blob.GetProperties(ctx, &blob.GetPropertiesOptions{AccessConditions: g.conditions(nil)})
	if err != nil {
		return nil, translate(err)
	}
	all, err := g.metadata(ctx, p.Metadata, "")
	return all, translate(err)
}
