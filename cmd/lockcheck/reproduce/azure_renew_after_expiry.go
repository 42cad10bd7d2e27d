package reproduce

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"time"

	"github.com/lockcheck/lockcheck/checker"
	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference/backends/azureblob"
	"github.com/lockcheck/lockcheck/reference/broken"
)

var azureRenewAfterExpiry = Story{
	Name:   "azure-renew-after-expiry",
	Title:  "A blob's lease has run out, and anybody could have had it. Nobody has, and so a renewal is granted as if nothing had happened.",
	Source: "Azure, Lease Blob: a lease can be renewed even if it has expired, as long as the blob was not modified or leased again",
	Shown:  Play{Target: "an Azurite, and a client that believes it", Own: &renewsLate, Start: azurite, Sign: fails(checker.Renewal, "revived")},
	Cure:   "What the client has declared lost stays lost, whatever the service would grant.",
	Cured:  Play{Target: "up:azurite", Case: "E04", Sign: passes},
}

var renewsLate = contract.Case{ID: "Y03", Suite: contract.ChaosSuite, Group: "story", Level: contract.ClientLevel, Since: "1",
	Name: "a lease that has run out is not renewed", Limit: 2 * time.Minute,
	Why: "between its end and its revival another may have held the key, and the holder never hears of it",
	Run: func(ctx context.Context, e *contract.Env) {
		p := e.MustProcess(ctx, "n1")
		t, err := p.Acquire(ctx, lockspec.Request{Key: e.Key("k"), Lease: e.LeaseOf(e.Lease), Renew: lockspec.RenewManual})
		if err != nil {
			e.Inconclusive("acquire: %v", err)
			return
		}
		e.MustSleep(ctx, t.Lease+2*time.Second)
		err = t.Renew(ctx, t.Lease)
		e.Story("a lease of %s was renewed 2 s after its end, and the answer was %s", t.Lease, lockspec.OutcomeOf(err))
		_ = e.Release(ctx, t)
		t.Stop()
	}}

// azurite is an Azurite, and clients without an engine.
func azurite(ctx context.Context, servers containers.Options) (contract.Harness, func() error, error) {
	key := base64.StdEncoding.EncodeToString([]byte(rand.Text() + rand.Text()))
	server, err := containers.Azurite(ctx, &containers.AzuriteOptions{Options: servers, Key: key})
	if err != nil {
		return nil, nil, err
	}
	o := &azureblob.Options{Account: containers.AzuriteAccount, Key: key}
	faults, err := azureblob.NewFaults(ctx, forgetful{server}, "lockcheck", o) // which makes the container
	if err != nil {
		return nil, nil, errors.Join(err, server.Close())
	}
	b, err := azureblob.New(faults.URL(), o)
	if err != nil {
		return nil, nil, errors.Join(err, faults.Close(), server.Close())
	}
	return bareHarness{broken.Bare(b)}, func() error { return errors.Join(b.Close(), faults.Close(), server.Close()) }, nil
}

// forgetful is an Azurite that is never restarted here.
type forgetful struct{ containers.Server }

// Restart implements azureblob.Started.
func (s forgetful) Restart(ctx context.Context) error {
	return s.Server.Restart(ctx, containers.Forget)
}

// bareHarness gives everybody the one client: each acquisition has an owner of
// its own.
type bareHarness struct{ client lockspec.Client }

// Describe implements contract.Harness.
func (h bareHarness) Describe() lockspec.Description {
	return h.client.(lockspec.Describer).Describe()
}

// Open implements contract.Harness.
func (h bareHarness) Open(context.Context, string) (lockspec.Client, error) { return h.client, nil }
