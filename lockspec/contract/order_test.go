package contract

import (
	"testing"
	"time"

	"github.com/lockcheck/lockcheck/lockspec"
)

// TestOrder: what takes long begins first, and every case once; the others keep
// their order.
func TestOrder(t *testing.T) {
	for lease, want := range map[time.Duration]string{leastLease: "bdace", 2 * mostLease: "cbdae"} {
		c := &check{lease: lease, desc: lockspec.Description{Class: lockspec.Leased}, o: &Options{Cases: []Case{
			{ID: "a"}, {ID: "b", Long: true}, {ID: "c", Group: "renewal"}, {ID: "d", Long: true}, {ID: "e"}}}}
		got := ""
		for _, i := range c.order() {
			got += c.o.Cases[i].ID
		}
		if got != want {
			t.Errorf("lease %s: order %s, want %s", lease, got, want)
		}
	}
}
