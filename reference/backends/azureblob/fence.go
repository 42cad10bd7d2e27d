package azureblob

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lockcheck/lockcheck/lockspec"
)

// FenceEntry is the name of the metadata entry that holds the newest token of a
// key and, behind a space, the mark of the lease that it was granted with.
const FenceEntry = "lockfence"

// fenceTries bounds how often the entry is read anew because it was written in
// between. Nobody but the holder can, so this is for an earlier request of his
// own that was late.
const fenceTries = 4

// fence gives the holder a token: the one he was given before, or one that is
// higher than every other. What else the metadata holds goes back as it was,
// because the service knows no way to set one entry.
func (g guard) fence(ctx context.Context, at version) (int64, error) {
	for range fenceTries {
		p, err := g.blob.GetProperties(ctx, &blob.GetPropertiesOptions{AccessConditions: g.conditions(nil)})
		if err != nil {
			return 0, err
		}
		last, mark, entry := readFence(p.Metadata)
		if mark == g.mark() {
			return last, nil
		}
		token, err := next(last, at.date, time.Now())
		if err != nil {
			return 0, err
		}
		all, err := g.metadata(ctx, p.Metadata, entry)
		if err != nil {
			return 0, err
		}
		text := strconv.FormatInt(token, 10) + " " + g.mark()
		all[FenceEntry] = &text
		_, err = g.blob.SetMetadata(ctx, all, &blob.SetMetadataOptions{AccessConditions: g.conditions(p.ETag)})
		if code(err) != bloberror.ConditionNotMet {
			return token, err
		}
	}
	return 0, errors.New("the guard's metadata was written by others again and again")
}

// conditions are those of a request that only the holder may make, and only of
// the version that he has read.
func (g guard) conditions(etag *azcore.ETag) *blob.AccessConditions {
	return &blob.AccessConditions{
		LeaseAccessConditions:    &blob.LeaseAccessConditions{LeaseID: &g.id},
		ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: etag},
	}
}

// mark tells one lease from another without telling its id, with which anybody
// could release it.
func (g guard) mark() string { return markOf(g.id) }

// metadata is a copy of a guard's metadata without our entry. The client gives
// names in a case of its own; where there are names of others, they are read
// from a listing, which has them as they were written. Who may not list keeps
// theirs in the client's case: to the service that is the same name.
func (g guard) metadata(ctx context.Context, known map[string]*string, entry string) (map[string]*string, error) {
	all := maps.Clone(known)
	delete(all, entry)
	if all == nil {
		all = map[string]*string{}
	}
	if len(all) == 0 {
		return all, nil
	}
	one := int32(1)
	pager := g.all.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
		Prefix: &g.name, MaxResults: &one, Include: container.ListBlobsInclude{Metadata: true}})
	page, err := pager.NextPage(ctx)
	if err != nil {
		if errors.Is(translate(err), lockspec.ErrConfig) {
			return all, nil
		}
		return nil, err
	}
	// Of all names that begin so, the name itself is the first.
	if page.Segment == nil || len(page.Segment.BlobItems) == 0 || page.Segment.BlobItems[0].Name == nil || *page.Segment.BlobItems[0].Name != g.name {
		return all, nil
	}
	for name, value := range page.Segment.BlobItems[0].Metadata {
		for canonical := range all {
			if canonical != name && strings.EqualFold(canonical, name) {
				delete(all, canonical)
				all[name] = value
			}
		}
	}
	return all, nil
}

// readFence finds the entry, however its name is written. One that nobody can
// read counts as none: the clock is above whatever it was.
func readFence(metadata map[string]*string) (token int64, mark, name string) {
	for n, v := range metadata {
		if !strings.EqualFold(n, FenceEntry) || v == nil {
			continue
		}
		number, mark, _ := strings.Cut(*v, " ")
		token, err := strconv.ParseInt(number, 10, 64)
		if err != nil || token < 0 {
			return 0, "", n
		}
		return token, mark, n
	}
	return 0, "", ""
}

var errTokens = fmt.Errorf("%w: the token of the key was overwritten with a number that cannot rise", lockspec.ErrConfig)

// next is the token after last. It is not below the service's clock in
// microseconds, so that tokens go on rising where the guard was deleted and its
// entry with it. The service tells its clock in seconds; within the second
// this machine's clock decides, as far as it agrees.
func next(last int64, service, here time.Time) (int64, error) {
	if last >= exact {
		return 0, errTokens
	}
	floor := here.UnixMicro()
	if !service.IsZero() {
		floor = min(max(floor, service.UnixMicro()), service.Add(time.Second).UnixMicro()-1)
	}
	return max(last+1, floor), nil
}

// exact is the largest number up to which every integer is a double: a resource
// that reads JSON reads no token wrong.
const exact = 1 << 53
