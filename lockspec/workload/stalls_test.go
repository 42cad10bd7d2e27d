package workload

import (
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/checker/history"
)

// TestSamplerAddsUp: many small delays are a stall as one large one is, few are
// none, and none is told twice.
func TestSamplerAddsUp(t *testing.T) {
	const every, over = 5 * time.Millisecond, 10 * time.Millisecond // of a lease of 100 ms
	for name, tc := range map[string]struct {
		ticks []time.Duration // how late each is
		want  int
	}{
		"on time":      {[]time.Duration{0, 0, 0, 0, 0}, 0},
		"one large":    {[]time.Duration{11 * time.Millisecond}, 1},
		"a few":        {[]time.Duration{9 * time.Millisecond, 9 * time.Millisecond}, 0},
		"many small":   {[]time.Duration{9 * time.Millisecond, 9 * time.Millisecond, 9 * time.Millisecond}, 1},
		"not twice":    {[]time.Duration{9 * time.Millisecond, 9 * time.Millisecond, 9 * time.Millisecond, 9 * time.Millisecond}, 1},
		"far apart":    {append(append([]time.Duration{9 * time.Millisecond, 9 * time.Millisecond}, make([]time.Duration, 20)...), 9*time.Millisecond), 0},
		"large, small": {[]time.Duration{20 * time.Millisecond, 9 * time.Millisecond}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			now, stalls := int64(1), 0
			rec, err := history.NewRecorder(history.Header{Version: history.FormatVersion}, &history.Options{
				Now: func() int64 { return now },
				Direct: func(e *history.Event) {
					if e.Fault == "stall" {
						stalls++
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			s := NewSampler(rec, every, over)
			s.stop()
			<-s.done
			for _, late := range tc.ticks {
				now += int64(every + late)
				s.Check()
			}
			if stalls != tc.want {
				t.Errorf("%d stalls, want %d", stalls, tc.want)
			}
		})
	}
}
