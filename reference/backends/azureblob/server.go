package azureblob

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
)

// Server is what a service tells of itself.
type Server struct {
	Name     string // the header Server, such as Azurite-Blob/3.35.0
	Emulator bool   // it is an Azurite
}

// probeKey begins the names of keys that no lock has.
const probeKey = "lockcheck-probe/"

// Look reaches the service, takes and gives back a key of its own, and removes
// its guard. An error says why no lock can be had there.
func (b *Backend) Look(ctx context.Context) (*Server, error) {
	var answer *http.Response
	ctx = policy.WithCaptureResponse(ctx, &answer)
	c := reference.Claim{Key: probeKey + rand.Text(), Owner: rand.Text(), Lease: LeaseMin, Count: 1}
	if _, err := b.Attempt(ctx, c); err != nil {
		return nil, err
	}
	if err := b.Release(ctx, c); err != nil {
		return nil, err
	}
	if err := b.remove(ctx, b.opts.blobName(c.Key)); err != nil && !errors.As(err, new(*refusal.Error)) { // who may not delete may hold
		return nil, err
	}
	s := &Server{}
	if answer != nil {
		s.Name = answer.Header.Get("Server")
	}
	s.Emulator = strings.HasPrefix(s.Name, "Azurite")
	return s, nil
}

// remove deletes a blob, whoever has its lease, unless somebody takes it anew
// each time.
func (b *Backend) remove(ctx context.Context, name string) error {
	for range 5 {
		ctx, cancel := bounded(ctx)
		defer cancel()
		at := b.container.NewBlobClient(name)
		everything := blob.DeleteSnapshotsOptionTypeInclude
		_, err := at.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: &everything})
		switch code(err) {
		case bloberror.BlobNotFound:
			return nil
		case bloberror.LeaseIDMissing:
		default:
			return translate(err)
		}
		if _, err := breakLease(ctx, at, 0); err != nil {
			return err
		}
	}
	return errTaken
}

var errTaken = errors.New("somebody takes the lease of what is to be removed again and again")

// breakLease ends a lease after the time, which takes no id. It says whether
// there was one.
func breakLease(ctx context.Context, at *blob.Client, after time.Duration) (bool, error) {
	l, err := lease.NewBlobClient(at, nil)
	if err != nil {
		return false, err
	}
	seconds := int32(after / time.Second)
	_, err = l.BreakLease(ctx, &lease.BlobBreakOptions{BreakPeriod: &seconds})
	switch code(err) {
	case bloberror.LeaseNotPresentWithLeaseOperation, bloberror.LeaseAlreadyBroken, bloberror.BlobNotFound:
		return false, nil
	}
	return err == nil, translate(err)
}

// Sweep removes every guard whose name begins with the options' prefix. It is
// for a run that had a prefix of its own: a token that goes makes the next one
// start from the clock.
func (b *Backend) Sweep(ctx context.Context) error {
	pager := b.container.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &b.opts.Prefix})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return translate(err)
		}
		for _, item := range page.Segment.BlobItems {
			if err := b.remove(ctx, *item.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
