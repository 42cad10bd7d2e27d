package driver

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

func TestSectionCrosses(t *testing.T) {
	n := startToy(t, Config{})
	sections := n.Client("p1").(lockspec.Sectioner)
	var seen []string
	var inside lockspec.Stamp
	token, err := sections.Section(within(t), lockspec.Request{Key: "k", Lease: time.Second}, 500*time.Millisecond,
		func(l lockspec.Lease) {
			seen = append(seen, "entered")
			if l.Granted() != time.Second || l.(lockspec.Fenced).Token() != 1 {
				t.Errorf("entered with %v", l.Granted())
			}
			inside = n.stamp()
			wants(t, "held inside", l.(lockspec.HoldChecker).Held(within(t)), lockspec.OK)
		},
		func(after lockspec.Stamp) {
			seen = append(seen, "left")
			if now := n.stamp(); after < inside || after > now {
				t.Errorf("the work went on at %d at least, not within %d and %d, when something was answered", after, inside, now)
			}
		})
	if err != nil || token != 1 || !slices.Equal(seen, []string{"entered", "left"}) {
		t.Errorf("section: %d, %v, %v", token, err, seen)
	}
	var both sync.WaitGroup // at the same time, each gets its own events
	for _, key := range []string{"a", "b", "c", "d?lost=5ms"} {
		both.Go(func() {
			client := n.Client(key).(lockspec.Sectioner)
			var entered lockspec.Lease
			_, err := client.Section(within(t), lockspec.Request{Key: key}, 50*time.Millisecond, func(l lockspec.Lease) { entered = l }, func(lockspec.Stamp) {})
			if entered == nil {
				t.Errorf("%s: never entered (%v)", key, err)
				return
			}
			want := lockspec.OK
			if strings.HasPrefix(key, "d") {
				want = lockspec.Lost
				await(t, "loss", entered.(lockspec.Notifier).Lost())
			}
			wants(t, "section "+key, err, want)
		})
	}
	both.Wait()
	_, err = sections.Section(within(t), lockspec.Request{Key: "k?panic"}, 0, nil, nil)
	wants(t, "section that panics", err, lockspec.Failed)
}
