package contract_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
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

// red is a deliberate fault, and the finding that its case must come to. Each
// fault touches the keys of its case only, so that the probes of the claims
// find nothing and the case stands alone.
type red struct {
	id, fault string
	want      string // kind/rule
	make      func(l *lab, id string) fault
	harness   func(t testing.TB, l *lab) contract.Harness // nil: the lab
}

// reds has at least one row for every case of the groups A, B, C, D and G.
func reds() []red {
	return []red{
		{"A01", "a handle that says lost at once", "contract/outcome", leaseBy(func(_ *lab, _ lockspec.Request, l powers) holding {
			return holding{powers: l, held: func(context.Context) error { return lockspec.ErrLost }}
		}), nil},
		{"A02", "a held key is granted again", "overlap/", backendBy(grantsHeld(1)), nil},
		{"A02", "a held key is no answer but a timeout", "contract/outcome", answersInstead(lockspec.ErrBusy, lockspec.ErrTimeout), nil},
		{"A03", "a client is granted what it holds", "contract/outcome", acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			held := map[string]lockspec.Lease{}
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				l, err := next(ctx, r)
				if errors.Is(err, lockspec.ErrBusy) && held[r.Key] != nil {
					return held[r.Key], nil
				}
				held[r.Key] = l
				return l, err
			}
		}), nil},
		{"A04", "the process is the owner", "contract/outcome", backendBy(ownerIsProcess), nil},
		{"A05", "all keys are one", "contract/free-key-refused", keysBy(func(k string) string {
			return k[:strings.LastIndex(k, "/")]
		}), nil},
		{"A06", "check, then set", "overlap/", backendBy(checkThenSet()), nil},
		{"A06", "all who race are turned away", "contract/no-winner", answersInstead(nil, lockspec.ErrBusy), nil},
		{"A06", "who loses a race is told of an error", "contract/outcome", answersInstead(lockspec.ErrBusy, lockspec.ErrConfig), nil},
		{"A07", "a release ends the session, with all that it holds", "contract/outcome", backendBy(releasesAll), nil},
		{"A07", "the connection is the owner", "overlap/", backendBy(ownerIsProcess), nil},
		{"A09", "a try waits", "contract/slow-try", acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				r.Wait = lockspec.NoLimit
				return next(ctx, r)
			}
		}), nil},
		{"A10", "one in ten gets in beside the holder", "overlap/", backendBy(grantsHeld(10)), nil},
		{"A11", "whoever finds the table being made fails", "contract/outcome", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				if firstUse.Add(1)%20 == 7 {
					return reference.Grant{}, fmt.Errorf("%w: table exists", lockspec.ErrConfig)
				}
				return b.Attempt(ctx, c)
			}}
		}), nil},
		{"A12", "what is there is overwritten", "contract/foreign-content", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				_ = l.Seed(ctx, c.Key, "me", time.Minute)
				return reference.Grant{}, lockspec.ErrBusy
			}}
		}), nil},
		{"A13", "the service keeps a key for longer than it says", "liveness/takeover", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{attempt: keepsLonger(b)}
		}), nil},

		{"B01", "a release is forgotten", "contract/free-key-refused", backendBy(forgetsRelease), nil},
		{"B02", "a second release deletes", "ownership/second-release-freed-successor", leaseBy(func(l *lab, r lockspec.Request, right powers) holding {
			var released atomic.Int32
			return holding{powers: right, release: func(ctx context.Context) error {
				if released.Add(1) > 2 {
					_ = l.Evict(ctx, r.Key)
				}
				return right.Release(ctx)
			}}
		}), nil},
		{"B02", "a second release is an error", "contract/outcome", leaseBy(func(_ *lab, _ lockspec.Request, right powers) holding {
			var released atomic.Int32
			return holding{powers: right, release: func(ctx context.Context) error {
				if released.Add(1) > 1 {
					return lockspec.ErrNotHeld
				}
				return right.Release(ctx)
			}}
		}), nil},
		{"B03", "each of many releases asks", "contract/deletes", leaseBy(func(l *lab, r lockspec.Request, right powers) holding {
			return holding{powers: right, release: func(ctx context.Context) error {
				_ = l.backend().Release(ctx, reference.Claim{Key: r.Key, Owner: "me"})
				return right.Release(ctx)
			}}
		}), nil},
		{"B04", "a release deletes, whoever holds", "ownership/late-release-freed-successor", backendBy(deletes(1)), nil},
		{"B06", "a release of what ran out is ok", "contract/outcome", leaseBy(func(_ *lab, _ lockspec.Request, right powers) holding {
			return holding{powers: right, release: func(ctx context.Context) error {
				if err := right.Release(ctx); !errors.Is(err, lockspec.ErrLost) {
					return err
				}
				return nil
			}}
		}), nil},
		{"B07", "the retry of a release deletes", "ownership/retry-freed-successor", backendBy(deletes(2)), nil},
		{"B08", "renewals go on after a release", "residue/renews-after-release", leaseBy(func(l *lab, r lockspec.Request, right powers) holding {
			return holding{powers: right, release: func(ctx context.Context) error {
				err := right.Release(ctx)
				time.AfterFunc(labLease/3, func() {
					_ = l.backend().Renew(context.Background(), reference.Claim{Key: r.Key, Owner: "me", Lease: labLease})
				})
				return err
			}}
		}), nil},
		{"B09", "a released handle says held", "contract/outcome", leaseBy(func(_ *lab, _ lockspec.Request, right powers) holding {
			return holding{powers: right, held: func(context.Context) error { return nil }}
		}), nil},
		{"B12", "a connection with a lock goes back to the pool", "liveness/takeover", session(backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{release: func(ctx context.Context, c reference.Claim) error {
				err := b.Release(ctx, c)
				if err != nil {
					_ = l.Seed(context.Background(), c.Key, "the pool", time.Minute)
				}
				return err
			}}
		})), nil},
		{"B13", "the service keeps a key for longer than it says", "liveness/takeover", nil, longerProcesses},
		{"A13", "the service keeps a dead process's key for longer than it says", "liveness/takeover", nil, longerProcesses},

		{"C02", "a wait ends half a second after its cancel", "contract/slow-cancel", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			l, err := next(ctx, r)
			if ctx.Err() != nil {
				time.Sleep(500 * time.Millisecond)
			}
			return l, err
		}), nil},
		{"C02", "a wait does not heed its cancel", "contract/cancel-ignored", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			return next(context.WithoutCancel(ctx), r)
		}), nil},
		{"C02", "who was cancelled goes on waiting", "residue/orphan", waitBy(goesOn), nil},
		{"C03", "what was won too late is kept", "residue/orphan", backendBy(forgetsRelease), nil},
		{"C07", "a lease ends with its context", "renewal/ended-with-context", acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				l, err := next(ctx, r)
				if err == nil {
					context.AfterFunc(ctx, func() { _ = l.Release(context.Background()) })
				}
				return l, err
			}
		}), nil},
		{"C09", "who was cancelled goes on waiting", "residue/orphan", waitBy(goesOn), nil},

		{"D01", "a wait gives up early", "contract/outcome", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			r.Wait = 20 * time.Millisecond
			return next(ctx, r)
		}), nil},
		{"D01", "a wait misses the release", "liveness/missed-release", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			return polls(ctx, r, next, time.Hour)
		}), nil},
		{"D02", "a wait is a quarter of what was asked", "contract/short-wait", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			r.Wait /= 4
			return next(ctx, r)
		}), nil},
		{"D02", "a wait that elapsed is busy", "contract/outcome", answersInstead(lockspec.ErrTimeout, lockspec.ErrBusy), nil},
		{"D03", "a try asks twice", "contract/attempts", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
				_, _ = b.Attempt(ctx, c)
				return b.Attempt(ctx, c)
			}}
		}), nil},
		{"D07", "the last to come is the first to be served", "contract/queue-order", sharedWait(func() waiting { return new(stack).wait }), nil},
		{"D08", "every waiter polls", "efficiency/every-waiter-polls", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			return polls(ctx, r, next, 20*time.Millisecond)
		}), nil},
		{"D09", "nobody is woken", "efficiency/not-woken", sharedWait(func() waiting {
			c := new(chain)
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				return c.queued(ctx, r.Key, r, next, 600*time.Millisecond)
			}
		}), nil},
		{"D10", "one who leaves stops the queue", "liveness/stuck-queue", sharedWait(stuckChain), nil},
		{"D11", "the first to leave stops the queue", "liveness/not-promoted", sharedWait(stuckChain), nil},
		{"D12", "all keys share one queue", "liveness/held-up", sharedWait(func() waiting {
			c := new(chain)
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				return c.queued(ctx, "all", r, next, 10*time.Millisecond)
			}
		}), nil},
		{"D14", "one of two never gets a turn", "liveness/starved", promisesSoon(sharedWait(func() waiting {
			var calls atomic.Int32
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				if calls.Add(1) == 10 {
					time.Sleep(r.Wait)
					return nil, lockspec.ErrTimeout
				}
				return next(ctx, r)
			}
		})), nil},
		{"D15", "a waiter that nobody tells waits for ever", "liveness/deaf-waiter", nil, func(_ testing.TB, l *lab) contract.Harness { return newMuted(l, 0) }},
		{"D16", "every error is retried", "contract/retried-in-vain", waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			l, err := next(ctx, r)
			if err != nil {
				time.Sleep(r.Wait)
			}
			return l, err
		}), nil},
		{"D17", "a waiter whose session ended is never called", "liveness/waiter-hangs", nil, func(_ testing.TB, l *lab) contract.Harness { return newSessions(l, true) }},

		{"G01", "an empty key is a key", "contract/outcome", acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				if r.Key == "" {
					r.Key = "nothing"
				}
				return next(ctx, r)
			}
		}), nil},
		{"G02", "keys are folded to lower case", "contract/keys-alias", keysBy(strings.ToLower), nil},
		{"G03", "escapes are undone", "contract/keys-alias", keysBy(func(k string) string { return strings.NewReplacer("%2F", "/", "~2F", "/").Replace(k) }), nil},
		{"G04", "paths are cleaned", "contract/keys-alias", keysBy(func(k string) string { return path.Clean("/" + k) }), nil},
		{"G05", "Unicode is normalized", "contract/keys-alias", keysBy(func(k string) string { return strings.ReplaceAll(k, "e\u0301", "\u00e9") }), nil},
		{"G06", "keys end at a zero byte", "contract/keys-alias", keysBy(func(k string) string { k, _, _ = strings.Cut(k, "\x00"); return k }), nil},
		{"G06", "bad bytes are replaced", "contract/keys-alias", keysBy(func(k string) string { return strings.ToValidUTF8(k, "\ufffd") }), nil},
		{"G07", "keys are cut off", "contract/keys-alias", keysBy(func(k string) string { return k[:min(len(k), 255)] }), nil},
		{"G08", "braces are dropped", "contract/keys-alias", keysBy(func(k string) string { return strings.Trim(k, "{}") }), nil},
		{"G08", "a star releases everything", "contract/keys-alias", backendBy(func(l *lab, b reference.Backend) spoiled {
			return spoiled{release: func(ctx context.Context, c reference.Claim) error {
				if stem, star := strings.CutSuffix(c.Key, "/*"); star {
					_ = l.Evict(ctx, stem+"/a:b")
				}
				return b.Release(ctx, c)
			}}
		}), nil},
		{"G10", "what follows a quote is a comment", "contract/keys-alias", keysBy(func(k string) string { k, _, _ = strings.Cut(k, "'"); return k }), nil},
		{"G12", "keys are folded to upper case", "contract/keys-alias", keysBy(strings.ToUpper), nil},
	}
}

// TestEachCaseSeenRed: with its fault each case fails, for the right reason,
// and nothing else does. A machine that stalls may leave one undecided; then it
// is tried again.
func TestEachCaseSeenRed(t *testing.T) {
	for _, row := range reds() {
		t.Run(row.id+" "+row.fault, func(t *testing.T) {
			if row.harness == nil {
				t.Parallel() // processes want the machine to themselves: what they lose to a stall, they give back
			}
			if wrong := eventually(3, func() error { return row.seen(t) }); wrong != nil {
				t.Error(wrong)
			}
		})
	}
}

// seen says what is missing: the finding, the case's status, or that nothing
// else was found.
func (row red) seen(t *testing.T) error {
	l := newLab(t, fault{})
	if row.make != nil {
		l.fault = row.make(l, row.id)
	}
	var h contract.Harness = l
	if row.harness != nil {
		h = row.harness(t, l)
	}
	r := checkCase(t, h, row.id)
	found := false
	var wrong []string
	for _, f := range r.Findings {
		text := fmt.Sprintf("%s %s/%s", f.Case, f.Kind, f.Rule)
		if strings.HasPrefix(text, row.id+" "+row.want) {
			found = true
			if len(f.Events) == 0 {
				wrong = append(wrong, text+" names no events")
			}
		}
		if f.Case != row.id {
			wrong = append(wrong, "also "+text+": "+f.Message)
		}
	}
	if !found {
		wrong = append(wrong, "no finding "+row.want)
	}
	if c := caseOf(t, r, row.id); c.Status != result.Fail {
		wrong = append(wrong, fmt.Sprintf("it is %s: %s", c.Status, c.Reason))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// TestReds: every case of these groups that is not of the API has its fault.
func TestReds(t *testing.T) {
	for _, k := range contract.Cases() {
		if strings.Contains("ABCDG", k.ID[:1]) && k.Level != contract.APILevel &&
			!slices.ContainsFunc(reds(), func(r red) bool { return r.id == k.ID }) {
			t.Errorf("case %s was never seen red", k.ID)
		}
	}
}

var firstUse atomic.Int32 // of A11, in which one fails

// grantsHeld grants a key that is held, once in so many times.
func grantsHeld(once int32) func(*lab, reference.Backend) spoiled {
	var n atomic.Int32
	return func(_ *lab, b reference.Backend) spoiled {
		return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			g, err := b.Attempt(ctx, c)
			if errors.Is(err, lockspec.ErrBusy) && n.Add(1)%once == 0 {
				return reference.Grant{Token: time.Now().UnixMicro(), Lease: c.Lease}, nil
			}
			return g, err
		}}
	}
}

// ownerIsProcess grants a key again to whoever shares the process with its holder.
func ownerIsProcess(_ *lab, b reference.Backend) spoiled {
	return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
		c.Owner = fmt.Sprintf("%p", b)
		return b.Attempt(ctx, c)
	}, release: func(ctx context.Context, c reference.Claim) error {
		c.Owner = fmt.Sprintf("%p", b)
		return b.Release(ctx, c)
	}}
}

// checkThenSet looks who holds a key, and takes it a moment later.
func checkThenSet() func(*lab, reference.Backend) spoiled {
	return func(l *lab, b reference.Backend) spoiled {
		return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
			if who, _ := l.Inspect(ctx, c.Key); len(who) > 0 {
				return reference.Grant{}, lockspec.ErrBusy
			}
			time.Sleep(5 * time.Millisecond)
			token, err := l.admin.Seed(ctx, c.Key, c.Owner, c.Lease)
			return reference.Grant{Token: token, Lease: c.Lease}, err
		}}
	}
}

// releasesAll releases all that the process holds.
func releasesAll(_ *lab, b reference.Backend) spoiled {
	var mu sync.Mutex
	var held []reference.Claim
	return spoiled{attempt: func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
		g, err := b.Attempt(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			held = append(held, c)
		}
		return g, err
	}, release: func(ctx context.Context, c reference.Claim) error {
		mu.Lock()
		defer mu.Unlock()
		for _, h := range held {
			_ = b.Release(ctx, h)
		}
		held = nil
		return nil
	}}
}

func forgetsRelease(*lab, reference.Backend) spoiled {
	return spoiled{release: func(context.Context, reference.Claim) error { return nil }}
}

// deletes releases whoever holds, from the owner's n-th try on.
func deletes(n int) func(*lab, reference.Backend) spoiled {
	return func(l *lab, b reference.Backend) spoiled {
		var mu sync.Mutex
		tries := map[string]int{}
		return spoiled{release: func(ctx context.Context, c reference.Claim) error {
			mu.Lock()
			tries[c.Owner]++
			again := tries[c.Owner] >= n
			mu.Unlock()
			if again {
				return l.Evict(ctx, c.Key)
			}
			return b.Release(ctx, c)
		}}
	}
}

func keepsLonger(b reference.Backend) func(context.Context, reference.Claim) (reference.Grant, error) {
	return func(ctx context.Context, c reference.Claim) (reference.Grant, error) {
		asked := c.Lease
		c.Lease *= 100 // beyond whatever a stalled machine may explain
		g, err := b.Attempt(ctx, c)
		g.Lease = asked
		return g, err
	}
}

// answersInstead turns one answer into another; nil is every answer.
func answersInstead(right, wrong error) func(*lab, string) fault {
	return acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
		return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
			if right == nil {
				return nil, wrong
			}
			l, err := next(ctx, r)
			if errors.Is(err, right) {
				err = wrong
			}
			return l, err
		}
	})
}

type waiting func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error)

// waitBy breaks acquisitions that wait.
func waitBy(wait waiting) func(*lab, string) fault {
	return sharedWait(func() waiting { return wait })
}

// sharedWait is waitBy for what all clients of a lab share.
func sharedWait(make func() waiting) func(*lab, string) fault {
	return func(l *lab, id string) fault {
		wait := make()
		return acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) {
			return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
				if r.Wait == 0 {
					return next(ctx, r)
				}
				return wait(ctx, r, next)
			}
		})(l, id)
	}
}

// goesOn waits on when it was cancelled, and keeps what it gets.
func goesOn(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
	type answer struct {
		l   lockspec.Lease
		err error
	}
	got := make(chan answer, 1)
	go func() {
		l, err := next(context.WithoutCancel(ctx), r)
		got <- answer{l, err}
	}()
	select {
	case a := <-got:
		return a.l, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func stuckChain() waiting {
	c := new(chain)
	return func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
		if r.Wait > 0 && r.Wait < labLease { // its time-out is right
			return next(ctx, r)
		}
		return c.queued(ctx, r.Key, r, next, 10*time.Millisecond)
	}
}

// promisesSoon promises that a waiter sees a release soon.
func promisesSoon(make func(*lab, string) fault) func(*lab, string) fault {
	return func(l *lab, id string) fault {
		f := make(l, id)
		f.claims = func(d *lockspec.Description) { d.Bounds.Poll = 50 * time.Millisecond }
		return f
	}
}

// session makes the lock say that sessions hold its keys.
func session(make func(*lab, string) fault) func(*lab, string) fault {
	return func(l *lab, id string) fault {
		f := make(l, id)
		f.claims = sessionClass
		return f
	}
}

func sessionClass(d *lockspec.Description) {
	d.Class, d.Hazards = lockspec.Session, nil
	d.Bounds.Takeover = 2 * labLease
}

// muted is a lab whose waiters are told of a release, and look by themselves at
// an interval; 0: never.
type muted struct {
	*lab
	hub *hub
}

func newMuted(l *lab, every time.Duration) muted {
	h := &hub{every: every}
	l.fault = acquireBy(func(*lab) func(context.Context, lockspec.Request, acquire) (lockspec.Lease, error) { return h.acquire })(l, "D15")
	return muted{l, h}
}

func (m muted) Mute(context.Context, string, int) (contract.Struck, error) {
	m.hub.mute(true)
	return m, nil
}
func (m muted) Await(context.Context) error { return nil }
func (m muted) Lift(context.Context) error {
	m.hub.mute(false)
	return nil
}

// sessions is a lab whose waiters have a session each. One that hangs does not
// notice that it ended.
type sessions struct {
	*lab
	ended chan struct{}
}

func newSessions(l *lab, hangs bool) sessions {
	s := sessions{l, make(chan struct{})}
	l.fault = waitBy(func(ctx context.Context, r lockspec.Request, next acquire) (lockspec.Lease, error) {
		session, end := context.WithCancel(ctx)
		defer end()
		go func() {
			select {
			case <-s.ended:
				end()
			case <-session.Done():
			}
		}()
		got, err := next(session, r)
		if session.Err() == nil || ctx.Err() != nil {
			return got, err
		}
		if hangs {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, lockspec.ErrUnavailable
	})(l, "D17")
	l.fault.claims = func(d *lockspec.Description) { d.Class, d.Hazards = lockspec.Consensus, nil }
	return s
}

func (s sessions) EndSessions(context.Context, string) error {
	close(s.ended)
	return nil
}

func longerProcesses(t testing.TB, _ *lab) contract.Harness { return newProcesses(t, "longer") }

// keysLonger keeps keys for longer than it says, but not those of the probes.
func keysLonger(b reference.Backend) reference.Backend { return longKeys{b} }

type longKeys struct{ reference.Backend }

func (b longKeys) Attempt(ctx context.Context, c reference.Claim) (reference.Grant, error) {
	if strings.Contains(c.Key, "/"+contract.ProbesID+"/") {
		return b.Backend.Attempt(ctx, c)
	}
	return keepsLonger(b.Backend)(ctx, c)
}

// Renew is as wrong as Attempt: a renewal on the way out would mend what the
// attempt broke.
func (b longKeys) Renew(ctx context.Context, c reference.Claim) error {
	if !strings.Contains(c.Key, "/"+contract.ProbesID+"/") {
		c.Lease *= 100
	}
	return b.Backend.Renew(ctx, c)
}
