// Package azureblob takes locks by the leases of Azure's blobs
// (https://learn.microsoft.com/rest/api/storageservices/lease-blob).
//
// Each key has a guard, a blob in one container, and who holds the lease of the
// guard holds the key. The guard is created empty by the first to ask, and
// never overwritten: a blob that is there already keeps its content and its
// metadata, to which fencing adds one entry. The container is the user's to
// create.
//
// The service grants 15 to 60 seconds. Anybody who may write the guard can
// break its lease; a holder learns that with its next renewal, and a resource
// that checks tokens is safe until then. For writes to the guard itself no
// token is needed: the service refuses those of a former holder, see [Guard].
package azureblob
