package driver

import (
	"context"
	"testing"

	"github.com/lockcheck/lockcheck/lockspec"
)

// BenchmarkRoundTrip is one request and its reply through a real process.
func BenchmarkRoundTrip(b *testing.B) {
	n, err := Start(context.Background(), Config{Name: "n1"})
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	lease, err := n.Client("p1").Acquire(context.Background(), lockspec.Request{Key: "k"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := lease.(lockspec.HoldChecker).Held(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
