package azureblob

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
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
// because the service knows no way to set one entry. Of a guard that was made a
// moment ago, and has that version still, nothing need be read.
func (g guard) fence(ctx context.Context, now time.Time, made *azcore.ETag) (int64, error) {
	for range fenceTries {
		var p blob.GetPropertiesResponse
		if p.ETag, made = made, nil; p.ETag == nil {
			var err error
			if p, err = g.blob.GetProperties(ctx, &blob.GetPropertiesOptions{AccessConditions: g.conditions(nil)}); err != nil {
				return 0, err
			}
		}
		last, mark, entry := readFence(p.Metadata)
		if mark == g.mark() {
			return last, nil
		}
		token, err := next(last, now, time.Now())
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
// names in letters of its own; where there are names of others, they are looked
// up as they were written. Who may not do that keeps theirs in the client's
// letters: to the service that is the same name.
func (g guard) metadata(ctx context.Context, known map[string]*string, entry string) (map[string]*string, error) {
	all := maps.Clone(known)
	delete(all, entry)
	if len(all) == 0 {
		return map[string]*string{}, nil
	}
	names, err := g.names(ctx)
	if err != nil && !errors.Is(translate(err), lockspec.ErrConfig) {
		return nil, err
	}
	for _, name := range names {
		for other, value := range all {
			if other != name && strings.EqualFold(other, name) {
				delete(all, other)
				all[name] = value
				break
			}
		}
	}
	return all, nil
}

// names are those of a guard's metadata as they were written. Only a listing
// has them, and only before the client has read it: it makes all letters small.
func (g guard) names(ctx context.Context) ([]string, error) {
	var raw *http.Response
	one := int32(1)
	_, err := g.all.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
		Prefix: &g.name, MaxResults: &one, Include: container.ListBlobsInclude{Metadata: true},
	}).NextPage(policy.WithCaptureResponse(ctx, &raw))
	if err != nil || raw == nil {
		return nil, err
	}
	text, err := runtime.Payload(raw)
	if err != nil {
		return nil, err
	}
	var page struct {
		Blobs []struct {
			Name     string
			Metadata struct {
				Entries []struct{ XMLName xml.Name } `xml:",any"`
			}
		} `xml:"Blobs>Blob"`
	}
	if err := xml.Unmarshal(text, &page); err != nil {
		return nil, err
	}
	if len(page.Blobs) == 0 || page.Blobs[0].Name != g.name { // of all that begin so, it would be the first
		return nil, nil
	}
	var names []string
	for _, e := range page.Blobs[0].Metadata.Entries {
		names = append(names, e.XMLName.Local)
	}
	return names, nil
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
