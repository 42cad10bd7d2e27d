package explore

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// waiting is those goroutines of a dump that are in a bubble and of which the
// state satisfies, without what synctest itself keeps.
func waiting(dump []byte, keep func(state string) bool) string {
	var out []string
	for _, g := range strings.Split(string(dump), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		if strings.Contains(head, "synctest bubble") && !strings.Contains(head, "[synctest.Run") && keep(head) {
			out = append(out, g)
		}
	}
	return strings.Join(out, "\n\n")
}

func whole(string) bool { return true }

// notDurable: time in a bubble stands still while a goroutine waits for
// something outside of it.
func notDurable(head string) bool {
	return !strings.Contains(head, "(durable)") && !strings.Contains(head, "[runn")
}

// looks is how often a watch looks within its limit, once it has reason to. What
// counts is how often it looked and not how much time went by: a machine that
// gives this process no time gives its watch none either, and that is no
// schedule that is stuck.
const looks = 100

// watch looks in real time whether schedules end; where one does not, stuck is
// told why. Whoever plays calls ended after each, and stop at last.
//
// It sleeps while they do. A goroutine that wakes up in the middle of a schedule
// takes the place of the one that was to run next, which then runs after others:
// looking ten times a second made two schedules of ten thousand differ from
// their repetition.
func watch(limit time.Duration, stuck func(string)) (ended, stop func()) {
	var played atomic.Int64
	done, patience := make(chan struct{}), max(1, limit/10)
	t := time.AfterFunc(patience, func() {
		look := time.NewTicker(max(1, limit/looks))
		defer look.Stop()
		if idle(look.C, done, &played) {
			stuck(blame(stacks(), limit))
		}
	})
	ended = func() { played.Add(1); t.Reset(patience) }
	return ended, func() { t.Stop(); close(done) }
}

// idle looks at each tick, until something was played or everything is done. It
// is true if that was not so for as many ticks as a watch has.
func idle(ticks <-chan time.Time, done <-chan struct{}, played *atomic.Int64) bool {
	before := played.Load()
	for range looks {
		select {
		case <-done:
			return false
		case <-ticks:
		}
		if played.Load() != before {
			return false
		}
	}
	return true
}

// blame says what keeps a bubble.
func blame(dump []byte, limit time.Duration) string {
	why := "a goroutine runs and never waits"
	guilty := waiting(dump, notDurable)
	if guilty != "" {
		why = "time in a bubble stands still while a goroutine waits for the real world: a real connection, file or process, " +
			"or a channel or mutex of something outside. Give the lock the node's Clock and Call, and nothing else"
	} else {
		guilty = waiting(dump, whole)
	}
	return fmt.Sprintf("%v: a schedule did not end in %s of real time; %s:\n%s", ErrStuck, limit, why, guilty)
}
