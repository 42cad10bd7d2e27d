package memory

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
)

// served is a server that lives as long as the test.
func served(t testing.TB, store ...*Store) (addr string, admin Admin) {
	t.Helper()
	data, adm, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	var opts Options
	if len(store) > 0 {
		opts.Store = store[0]
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, data, adm, &opts) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return data.Addr().String(), Admin{adm.Addr().String()}
}

func engineTo(t testing.TB, addr string, opts *reference.Options) *reference.Engine {
	t.Helper()
	e, err := reference.New(Dial(addr, &BackendOptions{Lease: 10 * time.Second}), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// limited bounds what a test waits for.
func limited(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func check(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestTwoEnginesExclude(t *testing.T) {
	addr, admin := served(t)
	a, b := engineTo(t, addr, nil), engineTo(t, addr, nil)
	ctx := limited(t)
	l := must[*reference.Lease](t)(a.TryAcquire(ctx, "k", nil))
	for _, e := range []*reference.Engine{a, b} {
		_, err := e.TryAcquire(ctx, "k", nil)
		check(t, err, lockspec.ErrBusy)
	}
	held := must[[]State](t)(admin.Inspect(ctx, "k"))
	t1, _ := l.Token()
	if len(held) != 1 || held[0].Token != t1 || held[0].Left <= 0 || held[0].Left > 10*time.Second {
		t.Errorf("inspect: %+v", held)
	}
	check(t, l.Renew(ctx, 0), nil)
	check(t, l.Release(ctx), nil)
	l2 := must[*reference.Lease](t)(b.Acquire(ctx, "k", nil))
	if t2, _ := l2.Token(); t2 <= t1 {
		t.Errorf("token %d after %d", t2, t1)
	}
	if n := must[int](t)(admin.Count(ctx, Match{Op: "acquire", Key: "k"})); n != 4 {
		t.Errorf("counted %d acquires", n)
	}
	if n := must[int](t)(admin.Count(ctx, Match{})); n != 6 {
		t.Errorf("counted %d requests", n)
	}
}

func TestLostAcquireReply(t *testing.T) {
	addr, admin := served(t)
	e := engineTo(t, addr, &reference.Options{AttemptTimeout: 100 * time.Millisecond})
	ctx := limited(t)
	id := must[int64](t)(admin.Inject(ctx, DropReply, Match{"acquire", "k"}, 0))
	_, err := e.TryAcquire(ctx, "k", nil)
	check(t, err, lockspec.ErrUnavailable)
	check(t, admin.Await(ctx, id, 10*time.Second), nil)
	check(t, engineTo(t, addr, nil).Do(ctx, "k", func(context.Context, *reference.Lease) error { return nil }, nil), nil)

	// The backend alone cleans nothing up: the grant is there, and its owner
	// finds it again.
	id = must[int64](t)(admin.Inject(ctx, DropReply, Match{"acquire", "b"}, 1))
	b, claim := Dial(addr, nil), reference.Claim{Key: "b", Owner: "o", Lease: time.Minute}
	defer b.Close()
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = b.Attempt(short, claim)
	check(t, err, lockspec.ErrUnavailable)
	check(t, admin.Await(ctx, id, 10*time.Second), nil) // it arrives, however busy the machine is
	held := must[[]State](t)(admin.Inspect(ctx, "b"))
	if len(held) != 1 {
		t.Fatalf("an acquire whose reply was dropped left %+v", held)
	}
	if g := must[reference.Grant](t)(b.Attempt(ctx, claim)); g.Token != held[0].Token {
		t.Errorf("token %d, want %d", g.Token, held[0].Token)
	}

	must[int64](t)(admin.Inject(ctx, DropReply, Match{"acquire", "k"}, 2))
	l := must[*reference.Lease](t)(e.Acquire(ctx, "k", nil))
	check(t, l.Release(ctx), nil)
	if held := must[[]State](t)(admin.Inspect(ctx, "k")); held != nil {
		t.Errorf("left: %+v", held)
	}
}

// TestReplyFaultStrikesAfterItsRequest: nobody is told that a reply is lost or
// held before the request has taken effect. (A key that had been released was
// still busy for whoever was told, and a right lock accused of it.)
func TestReplyFaultStrikesAfterItsRequest(t *testing.T) {
	store := New(nil)
	addr, admin := served(t, store)
	ctx := limited(t)
	b := Dial(addr, nil)
	defer b.Close()
	for _, fault := range []Fault{DropReply, HoldReply} {
		id := must[int64](t)(admin.Inject(ctx, fault, Match{"acquire", string(fault)}, 1))
		store.mu.Lock() // nothing takes effect
		short, cancel := context.WithCancel(ctx)
		var asked sync.WaitGroup
		asked.Go(func() { _, _ = b.Attempt(short, reference.Claim{Key: string(fault), Owner: "o", Lease: time.Minute}) })
		check(t, admin.Await(ctx, id, 100*time.Millisecond), lockspec.ErrTimeout)
		store.mu.Unlock()
		check(t, admin.Await(ctx, id, 10*time.Second), nil)
		if held := store.Inspect(string(fault)); len(held) != 1 {
			t.Errorf("%s of an acquire: held %+v", fault, held)
		}
		cancel()
		asked.Wait()
	}
}

// A request that is under way for long lands late, even if its sender has
// hung up meanwhile.
func TestHeldRequestLandsLate(t *testing.T) {
	addr, admin := served(t)
	ctx := limited(t)
	b := Dial(addr, nil)
	id := must[int64](t)(admin.Inject(ctx, HoldRequest, Match{Op: "acquire"}, 0))
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err := b.Attempt(short, reference.Claim{Key: "k", Owner: "o", Lease: time.Minute})
	check(t, err, lockspec.ErrUnavailable)
	b.Close()
	if held := must[[]State](t)(admin.Inspect(ctx, "k")); held != nil {
		t.Errorf("applied while held: %+v", held)
	}
	check(t, admin.Lift(ctx, id), nil)
	check(t, admin.Lift(ctx, id), lockspec.ErrNotHeld)
	for {
		if held := must[[]State](t)(admin.Inspect(ctx, "k")); len(held) == 1 {
			break
		}
	}
}

func TestHeldReplyDelaysNoOther(t *testing.T) {
	addr, admin := served(t)
	ctx := limited(t)
	e := engineTo(t, addr, nil)
	id := must[int64](t)(admin.Inject(ctx, HoldReply, Match{"acquire", "slow"}, -1))
	var all sync.WaitGroup
	all.Go(func() {
		l, err := e.TryAcquire(ctx, "slow", nil)
		if err != nil {
			t.Error(err)
			return
		}
		check(t, l.Release(ctx), nil)
	})
	check(t, admin.Await(ctx, id, 10*time.Second), nil)
	check(t, must[*reference.Lease](t)(e.TryAcquire(ctx, "quick", nil)).Release(ctx), nil)
	check(t, admin.Lift(ctx, 0), nil)
	all.Wait()
}

func TestDroppedRequestDoesNothing(t *testing.T) {
	addr, admin := served(t)
	ctx := limited(t)
	// Two attempts fit, even where a busy machine answers late.
	e := engineTo(t, addr, &reference.Options{ReleaseTimeout: 10 * time.Second, AttemptTimeout: 2 * time.Second})
	l := must[*reference.Lease](t)(e.TryAcquire(ctx, "k", nil))
	must[int64](t)(admin.Inject(ctx, DropRequest, Match{"release", "k"}, 1))
	check(t, l.Release(ctx), nil) // tried again
	if n := must[int](t)(admin.Count(ctx, Match{Op: "release"})); n != 2 {
		t.Errorf("%d releases", n)
	}
	e = engineTo(t, addr, &reference.Options{ReleaseTimeout: 400 * time.Millisecond})
	l = must[*reference.Lease](t)(e.TryAcquire(ctx, "k", nil))
	must[int64](t)(admin.Inject(ctx, DropRequest, Match{Op: "release"}, -1))
	check(t, l.Release(ctx), lockspec.ErrUnavailable)
	if held := must[[]State](t)(admin.Inspect(ctx, "k")); len(held) != 1 {
		t.Errorf("a dropped release was applied: %+v", held)
	}
}

func TestServiceFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		strike func(ctx context.Context, a Admin) error
		reason reference.Reason
	}{
		"evict":   {func(ctx context.Context, a Admin) error { return a.Evict(ctx, "k") }, reference.Expired},
		"restart": {func(ctx context.Context, a Admin) error { return a.Restart(ctx) }, reference.Expired},
		"shift":   {func(ctx context.Context, a Admin) error { return a.Shift(ctx, time.Minute) }, reference.Expired},
		"seed": {func(ctx context.Context, a Admin) error {
			_, err := a.Seed(ctx, "k", "foreign", time.Minute)
			return err
		}, reference.TakenOver},
	} {
		t.Run(name, func(t *testing.T) {
			addr, admin := served(t)
			ctx := limited(t)
			e := engineTo(t, addr, nil)
			l := must[*reference.Lease](t)(e.TryAcquire(ctx, "k", nil))
			check(t, tc.strike(ctx, admin), nil)
			err := l.Renew(ctx, 0)
			if reason(err) == "" { // a restart breaks the connection under the first try
				check(t, err, lockspec.ErrUnavailable)
				err = l.Renew(ctx, 0)
			}
			if reason(err) != tc.reason {
				t.Errorf("lost with %v, want %q", err, tc.reason)
			}
			check(t, admin.Evict(ctx, "nobody's"), lockspec.ErrNotHeld)
			if name == "seed" {
				return
			}
			t1, _ := l.Token()
			l2 := must[*reference.Lease](t)(engineTo(t, addr, nil).TryAcquire(ctx, "k", nil))
			if t2, _ := l2.Token(); t2 <= t1 {
				t.Errorf("token %d after %d", t2, t1)
			}
		})
	}
}

func TestStall(t *testing.T) {
	addr, admin := served(t)
	ctx := limited(t)
	e := engineTo(t, addr, &reference.Options{AttemptTimeout: 50 * time.Millisecond})
	check(t, admin.Stall(ctx), nil)
	_, err := e.TryAcquire(ctx, "k", nil)
	check(t, err, lockspec.ErrUnavailable)
	check(t, admin.Resume(ctx), nil)
	l := must[*reference.Lease](t)(e.Acquire(ctx, "k", nil))
	check(t, l.Release(ctx), nil)
}

func TestServerThatIsNotThere(t *testing.T) {
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	addr := l.Addr().String()
	l.Close()
	e := engineTo(t, addr, nil)
	_, err := e.TryAcquire(limited(t), "k", nil)
	check(t, err, lockspec.ErrUnavailable)
	_, err = Admin{addr}.Count(limited(t), Match{})
	check(t, err, lockspec.ErrUnavailable)
}

// A peer that takes requests and says nothing for long may be half open: the
// next call tries a new connection. Until then order is worth more.
func TestSilentConnectionIsGivenUp(t *testing.T) {
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	accepted := make(chan net.Conn, 8)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	call := func(b reference.Backend) {
		ctx, cancel := context.WithTimeout(limited(t), 30*time.Millisecond)
		defer cancel()
		check(t, b.Release(ctx, reference.Claim{Key: "k", Owner: "o"}), lockspec.ErrUnavailable)
	}
	b := newRemote(l.Addr().String(), nil)
	for range 3 {
		call(b)
	}
	defer (<-accepted).Close()
	if len(accepted) > 0 {
		t.Error("given up too soon")
	}
	b.conn.patience = 10 * time.Millisecond
	call(b)
	call(b)
	select {
	case c := <-accepted:
		c.Close()
	case <-limited(t).Done():
		t.Error("kept for ever")
	}
	b.Close()
	check(t, b.Renew(limited(t), reference.Claim{}), lockspec.ErrUnavailable)
}

func TestServeEndsWithItsListener(t *testing.T) {
	data, admin := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0")), must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	ended := make(chan error)
	go func() { ended <- Serve(context.Background(), data, admin, nil) }()
	data.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := admin.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the admin's listener is open: %v", err)
	}
}

// raw speaks the protocol by hand.
func raw(t testing.TB, addr string, lines ...string) (replies []message) {
	t.Helper()
	c := must[net.Conn](t)(net.Dial("tcp", addr))
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	in := bufio.NewScanner(c)
	for _, line := range lines {
		if _, err := c.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
		if !in.Scan() {
			t.Fatalf("no reply to %.80q: %v", line, in.Err())
		}
		var m message
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		replies = append(replies, m)
	}
	return replies
}

func TestProtocolBadInput(t *testing.T) {
	addr, admin := served(t)
	for name, tc := range map[string]struct {
		addr, line string
		want       lockspec.Outcome
		says       string
	}{
		"op":           {addr, `{"id":1,"op":"steal"}`, lockspec.Unsupported, `"steal"`},
		"admin's op":   {addr, `{"id":1,"op":"restart"}`, lockspec.Unsupported, `"restart"`},
		"data's op":    {admin.Addr, `{"id":1,"op":"acquire"}`, lockspec.Unsupported, `"acquire"`},
		"no owner":     {addr, `{"id":1,"op":"acquire","key":"k","lease_ns":1}`, lockspec.Config, "owner"},
		"no lease":     {addr, `{"id":1,"op":"renew","key":"k","owner":"o"}`, lockspec.Config, "lease"},
		"too many":     {addr, `{"id":1,"op":"acquire","key":"k","owner":"o","lease_ns":1,"count":2}`, lockspec.Unsupported, "permits"},
		"fault":        {admin.Addr, `{"id":1,"op":"fault","fault":"lightning"}`, lockspec.Config, `"lightning"`},
		"no fault":     {admin.Addr, `{"id":1,"op":"await","fault_id":99}`, lockspec.Config, "99"},
		"no JSON":      {addr, `acquire k`, lockspec.Config, "JSON"},
		"no base64":    {addr, `{"id":1,"op":"ping","key_b64":"?"}`, lockspec.Config, "key_b64"},
		"nobody's key": {addr, `{"id":1,"op":"delete","key":"k"}`, lockspec.NotHeld, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := raw(t, tc.addr, tc.line)[0]
			if m.Outcome != tc.want || !strings.Contains(m.Message, tc.says) {
				t.Errorf("answered %+v", m)
			}
		})
	}
}

func TestProtocolByHand(t *testing.T) {
	addr, admin := served(t)
	got := raw(t, addr,
		`{"id":1,"op":"ping"}`,
		`{"id":2,"op":"acquire","key_b64":"/w==","owner":"o","lease_ns":60000000000,"of":"later versions say more"}`,
		`{"id":3,"op":"acquire","key_b64":"/w==","owner":"p","lease_ns":60000000000}`,
		`{"id":4,"op":"renew","key_b64":"/w==","owner":"p","lease_ns":1}`,
		`{"id":5,"op":"delete","key_b64":"/w=="}`,
		`{"id":6,"op":"release","key_b64":"/w==","owner":"o"}`,
	)
	want := []lockspec.Outcome{lockspec.OK, lockspec.OK, lockspec.Busy, lockspec.NotHeld, lockspec.OK, lockspec.NotHeld}
	for i, m := range got {
		if m.Outcome != want[i] || m.ID != int64(i+1) {
			t.Errorf("reply %d: %+v", i+1, m)
		}
	}
	if got[3].Reason != reference.TakenOver || got[5].Reason != reference.Expired {
		t.Errorf("reasons %q, %q", got[3].Reason, got[5].Reason)
	}
	check(t, admin.do(limited(t), message{Op: "ping"}), nil)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":1,"op":"acquire","key":"k","owner":"o","lease_ns":500000000}`))
	f.Add([]byte(`{"id":2,"key_b64":"/w=="}`))
	f.Add([]byte(`{"id":3,"outcome":"not-held","reason":"taken over","holders":[{"owner":"x","left_ns":1}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := decode(line)
		if err != nil {
			return
		}
		out, err := encode(m)
		if err != nil {
			return // too long once escaped
		}
		again, err := decode(out)
		if err != nil || again.Key != m.Key || again.ID != m.ID || again.Outcome != m.Outcome || again.Lease != m.Lease {
			t.Errorf("%q became %q: %+v, %v", line, out, again, err)
		}
	})
}
