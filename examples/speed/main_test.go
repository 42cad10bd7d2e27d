package main

import (
	"context"
	"testing"
	"time"
)

// TestCompare: every contender gets and gives back what it asks for.
func TestCompare(t *testing.T) {
	if err := compare(context.Background(), 1, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
}
