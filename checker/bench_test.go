package checker

import (
	"fmt"
	"testing"

	"github.com/lockcheck/lockcheck/checker/history"
	"github.com/lockcheck/lockcheck/checker/internal/load"
	"github.com/lockcheck/lockcheck/lockspec"
)

func BenchmarkStream(b *testing.B) {
	for _, model := range []string{"mutex", "lease", "fenced", "permits:2"} {
		for _, clients := range []int{5, 100} {
			for _, workers := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/clients=%d/workers=%d", model, clients, workers), func(b *testing.B) {
					l := load.New(load.Options{Clients: clients, Keys: 16})
					events := make([]history.Event, 100_000)
					for i := range events {
						l.Next(&events[i])
					}
					m, err := ParseModel(model)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportAllocs()
					n := 0
					for b.Loop() {
						s := NewStream(&history.Header{Class: lockspec.Leased}, m, &StreamOptions{Workers: workers})
						for i := range events {
							s.Add(&events[i])
						}
						n += len(events)
						if sum := s.Close(); sum.Violations > 0 {
							b.Fatal(sum.Findings[0])
						}
					}
					b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mevents/s")
				})
			}
		}
	}
}
