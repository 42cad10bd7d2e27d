package azureblob

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/refusal"
)

// meaning is one line of the table of what a code of the service means for a
// lock. All of these are told before the request did anything. Codes are what
// the service documents; its texts differ between versions and emulators
// (https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes).
type meaning struct {
	code    bloberror.Code
	kind    error
	setting string // that is wrong, as a URL has it; empty: none is
	means   string
}

const refused = "the service refuses the key or the SAS (or this machine's clock is off by more than 15 minutes)"

var meanings = []meaning{
	{bloberror.LeaseAlreadyPresent, lockspec.ErrBusy, "", "another holds the lease"},
	{bloberror.LeaseIsBreakingAndCannotBeAcquired, lockspec.ErrBusy, "", "the lease is being broken"},

	{bloberror.LeaseIDMismatchWithLeaseOperation, lockspec.ErrLost, "", "the lease is not this owner's"},
	{bloberror.LeaseIDMismatchWithBlobOperation, lockspec.ErrLost, "", "the lease is not this owner's"},
	{bloberror.LeaseNotPresentWithLeaseOperation, lockspec.ErrLost, "", "there is no lease"},
	{bloberror.LeaseNotPresentWithBlobOperation, lockspec.ErrLost, "", "there is no lease"},
	{bloberror.LeaseLost, lockspec.ErrLost, "", "the lease has ended"},
	{bloberror.LeaseIsBrokenAndCannotBeRenewed, lockspec.ErrLost, "", "the lease was broken"},
	{bloberror.LeaseAlreadyBroken, lockspec.ErrLost, "", "the lease was broken"},
	{bloberror.BlobNotFound, lockspec.ErrLost, "", "the guard is gone"},

	{bloberror.AuthenticationFailed, lockspec.ErrConfig, "KEY", refused},
	{bloberror.AuthorizationFailure, lockspec.ErrConfig, "KEY", refused},
	{bloberror.InvalidAuthenticationInfo, lockspec.ErrConfig, "KEY", refused},
	{bloberror.NoAuthenticationInformation, lockspec.ErrConfig, "KEY", "the service wants a key or a SAS and was given none"},
	{bloberror.AuthorizationPermissionMismatch, lockspec.ErrConfig, "SAS", "the SAS or the identity may not do what a lock needs: read, create and write blobs"},
	{bloberror.AuthorizationServiceMismatch, lockspec.ErrConfig, "SAS", "the SAS is not for blobs"},
	{bloberror.AuthorizationResourceTypeMismatch, lockspec.ErrConfig, "SAS", "the SAS is not for blobs in a container"},
	{bloberror.AuthorizationProtocolMismatch, lockspec.ErrConfig, "tls", "the SAS is for https only"},
	{bloberror.AuthorizationSourceIPMismatch, lockspec.ErrConfig, "SAS", "the SAS is not for this address"},
	{bloberror.InsufficientAccountPermissions, lockspec.ErrConfig, "SAS", "the account may not do what a lock needs"},
	{bloberror.AccountIsDisabled, lockspec.ErrConfig, "ACCOUNT", "the account is disabled"},
	{bloberror.ContainerNotFound, lockspec.ErrConfig, "CONTAINER", "there is no container of that name; a lock does not create it"},
	{bloberror.ContainerDisabled, lockspec.ErrConfig, "CONTAINER", "the container is disabled"},
	{bloberror.InvalidResourceName, lockspec.ErrConfig, "CONTAINER", "that is no name of a container"},
	{bloberror.ResourceNotFound, lockspec.ErrConfig, "CONTAINER", "there is no such account or container"},
	{bloberror.InvalidHeaderValue, lockspec.ErrConfig, "lease", "the service does not grant a lease of that length"},
	{bloberror.BlobArchived, lockspec.ErrConfig, "", "under the key is a blob that is archived"},
	{bloberror.BlobImmutableDueToPolicy, lockspec.ErrConfig, "", "under the key is a blob that may not be changed"},
	{bloberror.MetadataTooLarge, lockspec.ErrConfig, "", "under the key is a blob whose metadata has no room for a token"},
	{bloberror.SnapshotsPresent, lockspec.ErrConfig, "", "under the key is a blob with snapshots"},
}

// translate says in the words of the contract why a call of the service failed.
func translate(err error) error {
	if err == nil || errors.Is(err, lockspec.ErrConfig) {
		return err // of this package's own
	}
	var said *azcore.ResponseError
	if errors.As(err, &said) {
		for _, m := range meanings {
			if said.ErrorCode == string(m.code) {
				return refusal.New(m.kind, m.setting, m.means, said)
			}
		}
		return fmt.Errorf("%w: the service answered %d %s", lockspec.ErrUnavailable, said.StatusCode, said.ErrorCode)
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("%w: %w: the service speaks no TLS; for an emulator say tls=off", lockspec.ErrConfig, reference.ErrNotSent)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("%w: %w: %w", lockspec.ErrUnavailable, reference.ErrNotSent, op)
	}
	return fmt.Errorf("%w: %w", lockspec.ErrUnavailable, discreet(err))
}

// discreet is a transport's error without the URL, which may hold a signature.
func discreet(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		return at.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// code is what the service answered; empty: it did not.
func code(err error) bloberror.Code {
	var said *azcore.ResponseError
	if errors.As(err, &said) {
		return bloberror.Code(said.ErrorCode)
	}
	return ""
}
