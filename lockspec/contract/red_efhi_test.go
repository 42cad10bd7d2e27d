package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/lockspec/contract"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reports/result"
)

// redRow is a deliberate fault that one case must find, for the right reason.
// It strikes the keys of that case only, so that the probes find nothing.
type redRow struct {
	id, wrong  string
	kind, rule string
	fault      fault
}

func redEFHI() []redRow {
	return []redRow{
		{"E01", "renewals are answered and never sent", "overlap", "entitled", fault{backend: on("E01", wrong{
			renew: func(context.Context, reference.Backend, reference.Claim) error { return nil }})}},
		{"E02", "renews three times less often than promised", "renewal", "too-seldom", fault{
			claims: func(d *lockspec.Description) { d.Bounds.RenewEveryRatio = 1.0 / 9 }}},
		{"E03", "takes every answer to a renewal for a good one", "loss-signal", "never", fault{backend: on("E03", wrong{renew: deaf})}},
		{"E04", "held looks at a local flag that nobody clears", "loss-signal", "resurrected", fault{client: leases("E04", alwaysHeld)}},
		{"E07", "the loss waits for an answer to the renewal", "loss-signal", "never", fault{client: leases("E07", neverLost)}},
		{"E08", "takes no answer for a refusal", "renewal", "not-retried", fault{backend: on("E08", wrong{renew: hasty})}},
		{"E09", "retries a refusal", "renewal", "refused-and-retried", fault{backend: on("E09", wrong{renew: stubborn})}},
		{"E10", "asks the service for four times the lease it grants", "liveness", "takeover", fault{backend: on("E10", longer)}},
		{"E11", "hands out whatever it is granted, whenever that is", "contract", "late-grant", naively("E11")},
		{"E12", "renews by setting the key", "renewal", "recreated", fault{backend: on("E12", wrong{renew: setting})}},
		{"E14", "grants leases below its own minimum", "contract", "lease-out-of-range", fault{
			claims: func(d *lockspec.Description) { d.Bounds.LeaseMin = 100 * time.Millisecond }}},
		{"E17", "keeps the key for longer than was promised", "residue", "orphan", fault{backend: on("E17", longer)}},

		{"F01", "every grant has the same token", "fencing", "token-order", fault{backend: on("F01", wrong{
			attempt: tokens(func(int64) int64 { return 7 })})}},
		{"F02", "each process counts for itself", "fencing", "token-order", fault{backend: countingAlone}},
		{"F03", "the counter goes with the key", "fencing", "token-order", fault{backend: forgetful("F03")}},
		{"F04", "the counter is lost in a restart", "fencing", "token-order", fault{backend: forgetful("F04")}},
		{"F05", "each renewal takes a new token", "fencing", "token-changed", fault{client: leases("F05", newTokens)}},
		{"F07", "keys are folded to lower case", "contract", "outcome", fault{backend: folded}},
		{"F08", "tokens are counted up from 2^60", "fencing", "token-lost-in-double", fault{backend: on("F08", wrong{
			attempt: tokens(func(n int64) int64 { return 1<<60 + n })})}},
		{"F11", "a bare counter that starts anew", "fencing", "token-order", fault{backend: forgetful("F11")}},
		{"F12", "gives tokens and claims none", "fencing", "token-unclaimed", fault{claims: func(d *lockspec.Description) {
			d.Features = without(d.Features, lockspec.Fencing)
		}}},

		{"H01", "an outage is reported as busy", "contract", "outcome", fault{client: outcomes("H01", lockspec.ErrUnavailable, lockspec.ErrBusy)}},
		{"H02", "an outage is reported as an elapsed wait", "contract", "outcome", fault{client: outcomes("H02", lockspec.ErrUnavailable, lockspec.ErrTimeout)}},
		{"H03", "a cancelled wait says busy too", "contract", "cancelled", fault{client: cancelledIsBusy}},
		{"H05", "retries wrong credentials for ever", "contract", "endless-retry", fault{misdirected: endless{}}},
		{"H08", "takes whatever session it gets", "contract", "misconfigured", fault{misdirected: granting{}}},
		{"H09", "takes a replica's word", "contract", "misconfigured", fault{misdirected: granting{}}},
		{"H10", "every loss is just gone", "contract", "reasons-alike", fault{client: leases("H10", justGone)}},

		{"I06", "is full after 500 keys and says busy", "contract", "outcome", fault{client: fullAfter(500)}},
	}
}

// TestRedEFHI sees each case fail once. Most of the time of a case is spent
// waiting, so several run at once. Where the machine stalls a case may be
// inconclusive, or see something else; then it is tried again.
func TestRedEFHI(t *testing.T) {
	rows := redEFHI()
	wrong := make([]error, len(rows))
	atOnce(len(rows), func(n int) {
		wrong[n] = eventually(3, func() error {
			r, err := check(t, newLab(t, rows[n].fault), rows[n].id)
			if err != nil {
				return err
			}
			return finds(r, rows[n].id, rows[n].kind, rows[n].rule)
		})
	})
	for n, row := range rows {
		t.Run(row.id+" "+row.wrong, func(t *testing.T) {
			if wrong[n] != nil {
				t.Error(wrong[n])
			}
		})
	}
}

func eventually(tries int, f func() error) (err error) {
	for range tries {
		if err = f(); err == nil {
			return nil
		}
	}
	return err
}

// finds says what is missing where the case did not fail for that reason.
func finds(r *result.Report, id, kind, rule string) error {
	var seen []string
	for _, f := range r.Findings {
		if f.Case != id {
			continue
		}
		if string(f.Kind) == kind && f.Rule == rule && (f.Certainty == "certain" || f.Observed) {
			if len(f.Events) == 0 && kind != "contract" {
				return fmt.Errorf("a finding without evidence: %+v", f)
			}
			return nil
		}
		seen = append(seen, string(f.Kind)+"/"+f.Rule+": "+f.Message)
	}
	status := ""
	for _, c := range r.Cases {
		if c.ID == id {
			status = string(c.Status) + " " + c.Reason
		}
	}
	return fmt.Errorf("no finding %s/%s; %s %.300q", kind, rule, status, seen[:min(3, len(seen))])
}

// atOnce calls f(0) to f(n-1), some of them at a time.
func atOnce(n int, f func(int)) {
	slots := make(chan struct{}, 6)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}

// TestEveryCaseOfEFHIIsSeenRed: the table names every case of these groups.
// E15 is seen red with processes, in skewed_test.go.
func TestEveryCaseOfEFHIIsSeenRed(t *testing.T) {
	red := map[string]bool{"E15": true}
	for _, row := range redEFHI() {
		red[row.id] = true
	}
	for _, c := range ofGroups("EFHI") {
		if !red[c.ID] {
			t.Errorf("%s %s is not seen red", c.ID, c.Name)
		}
		delete(red, c.ID)
	}
	for id := range red {
		t.Errorf("there is no case %s", id)
	}
}

func ofGroups(letters string) []contract.Case {
	var cases []contract.Case
	for _, c := range contract.Cases() {
		if strings.Contains(letters, c.ID[:1]) && c.Level != contract.APILevel {
			cases = append(cases, c)
		}
	}
	return cases
}

// TestReferenceKeepsEFHI: the reference engine, in this process, breaks none of
// the promises of these groups. Where the machine stalled a case may be
// inconclusive; then it is tried again.
func TestReferenceKeepsEFHI(t *testing.T) {
	var again []string
	for _, k := range ofGroups("EFHI") {
		again = append(again, k.ID)
	}
	for tries := 0; len(again) > 0; tries++ {
		if tries == 3 {
			t.Fatalf("inconclusive three times: %v", again)
		}
		r, err := check(t, newLab(t, fault{misdirected: refusing{}}), again...)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, id := range again {
			switch c := caseOf(t, r, id); c.Status {
			case result.Pass:
			case result.Unsupported:
				t.Logf("%s: %s", id, c.Reason)
			case result.Inconclusive:
				t.Logf("%s: %s", id, c.Reason)
				left = append(left, id)
			default:
				t.Errorf("%s: %s: %s", id, c.Status, c.Reason)
			}
		}
		again = left
	}
}

func without(all []lockspec.Feature, f lockspec.Feature) (rest []lockspec.Feature) {
	for _, g := range all {
		if g != f {
			rest = append(rest, g)
		}
	}
	return rest
}

// wrong replaces what a backend does; nil is left right.
type wrong struct {
	attempt func(context.Context, reference.Backend, reference.Claim) (reference.Grant, error)
	renew   func(context.Context, reference.Backend, reference.Claim) error
	release func(context.Context, reference.Backend, reference.Claim) error
}

type wronged struct {
	reference.Backend
	wrong
	id string
}

// on makes a backend wrong for the keys of one case.
func on(id string, w wrong) func(reference.Backend) reference.Backend {
	return func(b reference.Backend) reference.Backend { return wronged{b, w, "/" + id + "/"} }
}

func (w wronged) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	if w.attempt == nil || !strings.Contains(c.Key, w.id) {
		return w.Backend.Attempt(ctx, c)
	}
	return w.attempt(ctx, w.Backend, c)
}

func (w wronged) Renew(ctx context.Context, c reference.Claim) error {
	if w.renew == nil || !strings.Contains(c.Key, w.id) {
		return w.Backend.Renew(ctx, c)
	}
	return w.renew(ctx, w.Backend, c)
}

func (w wronged) Release(ctx context.Context, c reference.Claim) error {
	if w.release == nil || !strings.Contains(c.Key, w.id) {
		return w.Backend.Release(ctx, c)
	}
	return w.release(ctx, w.Backend, c)
}

func deaf(ctx context.Context, b reference.Backend, c reference.Claim) error {
	_ = b.Renew(ctx, c)
	return nil
}

func hasty(ctx context.Context, b reference.Backend, c reference.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, labLease/15)
	defer cancel()
	if err := b.Renew(ctx, c); err != nil {
		return lockspec.ErrNotHeld
	}
	return nil
}

func stubborn(ctx context.Context, b reference.Backend, c reference.Claim) error {
	err := b.Renew(ctx, c)
	for n := 0; n < 3 && err != nil; n++ {
		err = b.Renew(ctx, c)
	}
	return err
}

func setting(ctx context.Context, b reference.Backend, c reference.Claim) error {
	if err := b.Renew(ctx, c); !errors.Is(err, lockspec.ErrNotHeld) && !errors.Is(err, lockspec.ErrLost) {
		return err
	}
	_, err := b.Attempt(ctx, c)
	return err
}

// longer asks the service for more than it tells.
var longer = wrong{
	attempt: func(ctx context.Context, b reference.Backend, c reference.Claim) (reference.Grant, error) {
		told := c.Lease
		c.Lease *= 4
		g, err := b.Attempt(ctx, c)
		g.Lease = told
		return g, err
	},
	renew: func(ctx context.Context, b reference.Backend, c reference.Claim) error {
		c.Lease *= 4
		return b.Renew(ctx, c)
	},
}

// tokens makes the n-th grant's token from n.
func tokens(of func(n int64) int64) func(context.Context, reference.Backend, reference.Claim) (reference.Grant, error) {
	var n atomic.Int64
	return func(ctx context.Context, b reference.Backend, c reference.Claim) (reference.Grant, error) {
		g, err := b.Attempt(ctx, c)
		if err == nil {
			g.Token = of(n.Add(1))
		}
		return g, err
	}
}

// countingAlone is called once for each engine.
func countingAlone(b reference.Backend) reference.Backend {
	return on("F02", wrong{attempt: tokens(func(n int64) int64 { return n })})(b)
}

// forgetful counts for all engines together, and from 1 again once the service
// has said that it knows a key no more.
func forgetful(id string) func(reference.Backend) reference.Backend {
	var n atomic.Int64
	return on(id, wrong{
		attempt: func(ctx context.Context, b reference.Backend, c reference.Claim) (reference.Grant, error) {
			g, err := b.Attempt(ctx, c)
			if err == nil {
				g.Token = n.Add(1)
			}
			return g, err
		},
		release: func(ctx context.Context, b reference.Backend, c reference.Claim) error {
			err := b.Release(ctx, c)
			if errors.Is(err, lockspec.ErrNotHeld) || errors.Is(err, lockspec.ErrLost) {
				n.Store(0)
			}
			return err
		},
	})
}

type folding struct{ reference.Backend }

func folded(b reference.Backend) reference.Backend { return folding{b} }

func (f folding) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	c.Key = strings.ToLower(c.Key)
	return f.Backend.Attempt(ctx, c)
}

func (f folding) Renew(ctx context.Context, c reference.Claim) error {
	c.Key = strings.ToLower(c.Key)
	return f.Backend.Renew(ctx, c)
}

func (f folding) Release(ctx context.Context, c reference.Claim) error {
	c.Key = strings.ToLower(c.Key)
	return f.Backend.Release(ctx, c)
}

// answering replaces what a client's Acquire does.
type answering struct {
	lockspec.Client
	acquire func(context.Context, lockspec.Request) (lockspec.Lease, error)
}

func (a answering) Acquire(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
	return a.acquire(ctx, r)
}

// powerful is a lease of the reference engine with all its powers.
type powerful interface {
	lockspec.Lease
	lockspec.Renewer
	lockspec.Fenced
	lockspec.Notifier
	lockspec.LossStamper
	lockspec.HoldChecker
	lockspec.Sender
	lockspec.RenewalSource
}

// leases changes the leases of one case.
func leases(id string, change func(powerful) lockspec.Lease) func(lockspec.Client) lockspec.Client {
	return func(c lockspec.Client) lockspec.Client {
		return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
			l, err := c.Acquire(ctx, r)
			if err != nil || !strings.Contains(r.Key, "/"+id+"/") {
				return l, err
			}
			return change(l.(powerful)), nil
		}}
	}
}

type heldForEver struct{ powerful }

func alwaysHeld(l powerful) lockspec.Lease     { return heldForEver{l} }
func (heldForEver) Held(context.Context) error { return nil }

type unlosable struct{ powerful }

func neverLost(l powerful) lockspec.Lease    { return unlosable{l} }
func (unlosable) Lost() <-chan struct{}      { return nil }
func (unlosable) LostAt() lockspec.Stamp     { return 0 }
func (unlosable) Held(context.Context) error { return nil }

type retoken struct {
	powerful
	renewed *atomic.Int64
}

func newTokens(l powerful) lockspec.Lease { return retoken{l, new(atomic.Int64)} }
func (r retoken) Token() int64            { return r.powerful.Token() + r.renewed.Load() }
func (r retoken) Renew(ctx context.Context, d time.Duration) error {
	r.renewed.Add(1)
	return r.powerful.Renew(ctx, d)
}

type gone struct{ powerful }

func justGone(l powerful) lockspec.Lease { return gone{l} }
func (g gone) Cause() error {
	if g.powerful.Cause() == nil {
		return nil
	}
	return fmt.Errorf("%w: gone", lockspec.ErrLost)
}

// naively asks the backend as long as it takes, and believes its answer.
func naively(id string) fault {
	var raw atomic.Pointer[reference.Backend]
	return fault{
		backend: func(b reference.Backend) reference.Backend {
			raw.Store(&b)
			return b
		},
		client: func(c lockspec.Client) lockspec.Client {
			return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
				if !strings.Contains(r.Key, "/"+id+"/") {
					return c.Acquire(ctx, r)
				}
				claim := reference.Claim{Key: r.Key, Owner: "naive", Lease: r.Lease, Count: 1}
				g, err := (*raw.Load()).Attempt(context.WithoutCancel(ctx), claim)
				return naive{*raw.Load(), claim, g}, err
			}}
		},
	}
}

type naive struct {
	b     reference.Backend
	claim reference.Claim
	g     reference.Grant
}

func (n naive) Granted() time.Duration            { return n.claim.Lease }
func (n naive) Token() int64                      { return n.g.Token }
func (n naive) Release(ctx context.Context) error { return n.b.Release(ctx, n.claim) }
func (n naive) Held(context.Context) error        { return nil }

// outcomes says one thing for another.
func outcomes(id string, right, wrong error) func(lockspec.Client) lockspec.Client {
	return func(c lockspec.Client) lockspec.Client {
		return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
			l, err := c.Acquire(ctx, r)
			if errors.Is(err, right) && strings.Contains(r.Key, "/"+id+"/") {
				err = wrong
			}
			return l, err
		}}
	}
}

func cancelledIsBusy(c lockspec.Client) lockspec.Client {
	return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
		l, err := c.Acquire(ctx, r)
		if lockspec.OutcomeOf(err) == lockspec.Cancelled && strings.Contains(r.Key, "/H03/") {
			err = errors.Join(err, lockspec.ErrBusy)
		}
		return l, err
	}}
}

// fullAfter has room for so many keys, over all clients.
func fullAfter(room int64) func(lockspec.Client) lockspec.Client {
	var n atomic.Int64
	return func(c lockspec.Client) lockspec.Client {
		return answering{c, func(ctx context.Context, r lockspec.Request) (lockspec.Lease, error) {
			if strings.Contains(r.Key, "/I06/") && n.Add(1) > room {
				return nil, lockspec.ErrBusy
			}
			return c.Acquire(ctx, r)
		}}
	}
}

// OpenAt implements contract.Misdirector.
func (l *lab) OpenAt(context.Context, contract.Misdirection) (lockspec.Client, error) {
	if l.fault.misdirected == nil {
		return nil, lockspec.ErrUnsupported
	}
	return l.fault.misdirected, nil
}

// Clients that are configured wrongly.
type (
	refusing struct{} // as is right
	endless  struct{}
	granting struct{}
)

func (refusing) Close() error { return nil }
func (endless) Close() error  { return nil }
func (granting) Close() error { return nil }

func (refusing) Acquire(context.Context, lockspec.Request) (lockspec.Lease, error) {
	return nil, fmt.Errorf("%w: this is a replica", lockspec.ErrConfig)
}

func (endless) Acquire(ctx context.Context, _ lockspec.Request) (lockspec.Lease, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (granting) Acquire(context.Context, lockspec.Request) (lockspec.Lease, error) {
	return paper{}, nil
}

// paper is a lease that nobody keeps.
type paper struct{}

func (paper) Granted() time.Duration        { return labLease }
func (paper) Release(context.Context) error { return nil }
