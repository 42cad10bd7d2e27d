package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/lockspec/driver"
	"github.com/lockcheck/lockcheck/reference/backends/azureblob"
	"github.com/lockcheck/lockcheck/reference/broken"
	"github.com/lockcheck/lockcheck/reports/result"
)

// azblobForms are the rows of the table of targets.
func azblobForms() []schemeRow {
	return []schemeRow{{"azblob://ACCOUNT:KEY@HOST/CONTAINER", "leases of Azure's blobs; a SAS instead of KEY goes behind a ?", azblobTarget}}
}

func azblobTarget(rest string) (target, error) {
	text := azureblob.Scheme + "://" + rest
	if _, _, err := azureblob.ParseURL(text); err != nil {
		return target{}, exit(result.ExitUsage, "target %s: %w", redact(text), err)
	}
	return target{url: text, prepare: azblobService}, nil
}

func upAzuriteTarget(options string) (target, error) {
	text := azuriteURL(containers.AzuriteKey, "started", options)
	if _, _, err := azureblob.ParseURL(text); err != nil {
		return target{}, exit(result.ExitUsage, "target up:azurite: %w", err)
	}
	return target{url: text, prepare: upAzuriteService}, nil
}

// azuriteContainer is where the locks of a started Azurite are.
const azuriteContainer = "locks"

func azuriteURL(key, addr, options string) string {
	u := url.URL{Scheme: azureblob.Scheme, Host: addr, Path: "/" + azuriteContainer,
		User: url.UserPassword(containers.AzuriteAccount, key), RawQuery: options}
	return u.String()
}

// openAzblob opens the lock of a node.
func openAzblob(u *url.URL) (driver.Lock, error) {
	at, o, err := azureblob.ParseURL(u.String())
	if err != nil {
		return nil, err
	}
	b, err := azureblob.New(at, o)
	if err != nil {
		return nil, err
	}
	return newLock(u, b, broken.Lock{})
}

// azblobService looks at a container that is not ours. The keys of this run
// have a prefix of their own, so that their guards can be removed at the end
// and nothing else.
func azblobService(ctx context.Context, r *run) (*service, error) {
	at, o, err := azureblob.ParseURL(r.t.url)
	if err != nil {
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	}
	o.Prefix += "run-" + rand.Text()[:8] + "/"
	b, err := azureblob.New(at, o)
	if err != nil {
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	}
	known, err := r.lookAtBlobs(ctx, b)
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	add := url.Values{"prefix": {o.Prefix}}
	if known.Emulator && o.Takeover == 0 {
		add.Set("takeover", emulatorTakeover.String())
	}
	return &service{url: r.azblobURL(r.t.url, add), close: func() { r.sweepBlobs(b) }}, nil
}

// emulatorTakeover is what a free key of an Azurite needs to become obtainable:
// it looks at the expiry whenever a lease is asked for, so this is for a busy
// machine.
const emulatorTakeover = 250 * time.Millisecond

// lookAtBlobs tells what is known of a service, or why it cannot be used.
func (r *run) lookAtBlobs(ctx context.Context, b *azureblob.Backend) (*azureblob.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	known, err := b.Look(ctx)
	if err != nil {
		return nil, trouble(r.t.text, err)
	}
	fmt.Fprintf(r.d.err, "target %s: %s\n", r.t.text, known.Name)
	return known, nil
}

// azblobURL is what the drivers are told: a URL with the lease that will be
// asked for, and more options.
func (r *run) azblobURL(text string, add url.Values) string {
	u, _ := url.Parse(text) // it was parsed before
	q := u.Query()
	q.Set("lease", max(r.f.lease, azureblob.LeaseMin).String())
	for name, values := range add {
		q[name] = values
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// sweepBlobs removes the guards of this run.
func (r *run) sweepBlobs(b *azureblob.Backend) {
	ctx, cancel := context.WithTimeout(context.Background(), sweepLimit)
	defer cancel()
	if err := b.Sweep(ctx); err != nil {
		fmt.Fprintf(r.d.err, "warning: guards of this run may be left in the container: %v\n", err)
	}
	_ = b.Close()
}

// sweepLimit is for a few thousand blobs, one request each.
const sweepLimit = 30 * time.Second

// upAzuriteService starts an Azurite of its own, with a key that nobody knows,
// so that what is tested is what is used.
func upAzuriteService(ctx context.Context, r *run) (*service, error) {
	_, o, err := azureblob.ParseURL(r.t.url)
	if err != nil {
		return nil, exit(result.ExitUsage, "target %s: %w", r.t.text, err)
	}
	log, err := r.log("azurite")
	if err != nil {
		return nil, err
	}
	o.Key = base64.StdEncoding.EncodeToString([]byte(rand.Text() + rand.Text()))
	options := &containers.AzuriteOptions{Key: o.Key}
	options.Guard, options.Log = r.guard, log
	started, err := containers.Azurite(ctx, options)
	if err != nil {
		return nil, exit(result.ExitUnavailable, "target %s: %w", r.t.text, err)
	}
	faults, err := azureblob.NewFaults(ctx, startedAzurite{started}, azuriteContainer, o)
	if err != nil {
		return nil, exit(result.ExitInternal, "%w", errors.Join(err, started.Close()))
	}
	s := &service{close: func() { _ = errors.Join(faults.Close(), started.Close()) }}
	s.with = func(p *contract.Processes) (contract.Harness, func() error) {
		return azuriteHarness{p, faults}, p.Close
	}
	b, err := azureblob.New(faults.URL(), o)
	if err == nil {
		defer b.Close()
		_, err = r.lookAtBlobs(ctx, b)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	u, _ := url.Parse(r.t.url)
	add := url.Values{"tls": {"off"}}
	if o.Takeover == 0 {
		add.Set("takeover", emulatorTakeover.String())
	}
	s.url = r.azblobURL(azuriteURL(o.Key, faults.Addr(), u.RawQuery), add)
	r.up = s.url
	return s, nil
}

// azuriteHarness is the harness of an Azurite of ours: nodes are processes, and
// every power over the service is there.
type azuriteHarness struct {
	*contract.Processes
	*azureblob.Faults
}

// startedAzurite is a server as the faults of package azureblob want it.
type startedAzurite struct{ containers.Server }

// Restart implements azureblob.Started.
func (s startedAzurite) Restart(ctx context.Context) error {
	return s.Server.Restart(ctx, containers.Forget)
}

var _ azureblob.Started = startedAzurite{}
