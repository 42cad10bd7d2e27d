package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/containers"
	"github.com/lockcheck/lockcheck/lockspec"
	"github.com/lockcheck/lockcheck/reference"
	"github.com/lockcheck/lockcheck/reference/backends/redis"
)

// calls is how often the server was sent each command.
func calls(t *testing.T, addr string) map[string]int {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, time.Second)
	must(t, err)
	defer c.Close()
	fmt.Fprint(c, "INFO commandstats\r\n")
	in := bufio.NewReader(c)
	var size int
	_, err = fmt.Fscanf(in, "$%d\r\n", &size)
	must(t, err)
	text := make([]byte, size)
	_, err = io.ReadFull(in, text)
	must(t, err)
	all := map[string]int{}
	for _, m := range regexp.MustCompile(`cmdstat_([a-z]+):calls=(\d+)`).FindAllStringSubmatch(string(text), -1) {
		all[m[1]], _ = strconv.Atoi(m[2])
	}
	return all
}

// TestDialect: Valkey's own commands, on a Valkey. Whatever a renewal and a
// release are sent as, they mean the same.
func TestDialect(t *testing.T) {
	s := start(t, containers.RedisOptions{})
	for _, test := range []struct {
		name           string
		o              redis.Options
		renew, release string // the commands
	}{
		{"by default", redis.Options{}, "evalsha", "delifeq"},
		{"without fencing", redis.Options{Unfenced: true}, "evalsha", "delifeq"},
		{"renewed by IFEQ", redis.Options{Renew: redis.RenewIFEQ}, "set", "delifeq"},
		{"scripts", redis.Options{Release: redis.ReleaseLua}, "evalsha", "evalsha"},
		{"DELEX, which Valkey lacks", redis.Options{Release: redis.ReleaseDELEX}, "evalsha", "delifeq"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := redis.New(s.Addr(), &test.o)
			must(t, err)
			defer b.Close()
			known, err := b.Look(t.Context())
			must(t, err)
			if known.Name != "valkey" || !known.IFEQ || !known.DELIFEQ || known.DELEX || !known.SetNXGet {
				t.Errorf("it is taken for %+v", known)
			}
			protocol(t, s.Addr(), b, test.renew, test.release)
		})
	}
}

func protocol(t *testing.T, addr string, b *redis.Backend, renew, release string) {
	t.Helper()
	ctx := t.Context()
	a := reference.Claim{Key: "k", Owner: "a", Lease: 10 * time.Second, Count: 1}
	other := a
	other.Owner = "b"
	name := "lock:{k}"
	sends := func(command string, do func() error) error {
		t.Helper()
		before := calls(t, addr)[command]
		err := do()
		if n := calls(t, addr)[command] - before; n != 1 {
			t.Errorf("%s was sent %d times", command, n)
		}
		return err
	}
	lost := func(what string, do func(context.Context, reference.Claim) error, want reference.Reason) {
		t.Helper()
		var loss *reference.LostError
		if err := do(ctx, other); !errors.As(err, &loss) || loss.Reason != want {
			t.Errorf("%s: %v, want the reason %s", what, err, want)
		}
	}

	_, err := b.Attempt(ctx, a)
	must(t, err)
	if _, err := b.Attempt(ctx, other); !errors.Is(err, lockspec.ErrBusy) {
		t.Errorf("another's attempt: %v", err)
	}
	lost("another's renewal", b.Renew, reference.TakenOver)
	lost("another's release", b.Release, reference.TakenOver)
	say(t, addr, "PEXPIRE "+name+" 1000")
	must(t, sends(renew, func() error { return b.Renew(ctx, a) }))
	if left, _ := strconv.Atoi(say(t, addr, "PTTL "+name)[1:]); left < 9000 {
		t.Errorf("%d ms are left after a renewal", left)
	}
	must(t, sends(release, func() error { return b.Release(ctx, a) }))
	lost("renewal of what nobody holds", b.Renew, reference.Expired)
	lost("release of what nobody holds", b.Release, reference.Expired)
	if got := say(t, addr, "EXISTS "+name); got != ":0" {
		t.Errorf("a renewal created the key: %s", got)
	}
	say(t, addr, "RPUSH "+name+" x")
	for what, do := range map[string]func(context.Context, reference.Claim) error{"renewal": b.Renew, "release": b.Release} {
		if err := do(ctx, a); !errors.Is(err, lockspec.ErrConfig) {
			t.Errorf("%s of a list: %v", what, err)
		}
	}
	if got := say(t, addr, "DEL "+name); got != ":1" {
		t.Errorf("the list was touched: %s", got)
	}
}

// TestDialectOutOfMemory: why a renewal is a script unless it is told
// otherwise. A Valkey that is out of memory refuses every SET.
func TestDialectOutOfMemory(t *testing.T) {
	s := start(t, containers.RedisOptions{})
	for by, want := range map[redis.RenewBy]error{redis.RenewLua: nil, redis.RenewIFEQ: lockspec.ErrUnavailable} {
		b, err := redis.New(s.Addr(), &redis.Options{Renew: by})
		must(t, err)
		defer b.Close()
		c := reference.Claim{Key: string(by), Owner: "a", Lease: 10 * time.Second, Count: 1}
		_, err = b.Attempt(t.Context(), c)
		must(t, err)
		say(t, s.Addr(), "CONFIG SET maxmemory 1mb")
		if err := b.Renew(t.Context(), c); want == nil && err != nil || !errors.Is(err, want) {
			t.Errorf("renewal by %s: %v, want %v", by, err, want)
		}
		if err := b.Release(t.Context(), c); err != nil {
			t.Errorf("release: %v", err)
		}
		say(t, s.Addr(), "CONFIG SET maxmemory 0")
	}
}
