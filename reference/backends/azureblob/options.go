package azureblob

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/lockcheck/lockcheck/lockspec"
)

// Options are the settings of a way to a container. The zero value of each
// field stands for the default that its comment names. Of Key, SAS and
// Credential exactly one is needed.
type Options struct {
	// Account is the storage account's name; needed for Key.
	Account string
	// Key is one of the account's two, in base64.
	Key string
	// SAS is a shared access signature, without question mark, that may read,
	// create and write blobs.
	SAS string
	// Credential is an identity of Microsoft Entra.
	Credential azcore.TokenCredential
	// Prefix begins every key: letters, digits, - and _, and slashes between
	// them and at the end; default: none.
	Prefix string
	// Lease is asked for where the engine names none; default 30 s.
	Lease time.Duration
	// Unfenced leaves the metadata entry out: no tokens, and one request for a
	// grant instead of three.
	Unfenced bool
	// Takeover is how long after the end of a lease the service may still
	// refuse the next; default a minute, which is what Azure reserves itself.
	// An emulator needs none of it.
	Takeover time.Duration
	// Transport makes the calls; default: HTTP/1.1 with a pool of its own.
	Transport http.RoundTripper

	_ struct{}
}

// The defaults.
const (
	DefaultLease    = 30 * time.Second
	DefaultTakeover = time.Minute
)

// What the service grants
// (https://learn.microsoft.com/rest/api/storageservices/lease-blob).
const (
	LeaseMin = 15 * time.Second
	LeaseMax = 60 * time.Second
)

// prefixForm is what a prefix may look like, so that no key behind it is mapped
// otherwise than without it.
var prefixForm = regexp.MustCompile(`^([A-Za-z0-9_-]+/?)*$`)

const maxPrefix = 128

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	orDefault(&c.Lease, DefaultLease)
	orDefault(&c.Takeover, DefaultTakeover)
	c.SAS = strings.TrimPrefix(c.SAS, "?")
	return c, c.validate()
}

func (o *Options) validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	ways := 0
	for _, given := range []bool{o.Key != "", o.SAS != "", o.Credential != nil} {
		if given {
			ways++
		}
	}
	check(ways == 1, "%d credentials; exactly one of an account key, a SAS and a credential is needed", ways)
	check(o.Key == "" || o.Account != "", "an account key without the name of the account")
	_, err := base64.StdEncoding.DecodeString(o.Key)
	check(err == nil, "the account key is no base64")
	check(prefixForm.MatchString(o.Prefix) && len(o.Prefix) <= maxPrefix,
		"prefix %q is not of at most %d letters, digits, - and _, with single slashes between or at the end", o.Prefix, maxPrefix)
	check(o.Lease >= LeaseMin && o.Lease <= LeaseMax, "lease %v is not within what the service grants, %v to %v", o.Lease, LeaseMin, LeaseMax)
	check(o.Takeover > 0, "takeover %v is not positive", o.Takeover)
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", lockspec.ErrConfig, errors.Join(wrong...))
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
