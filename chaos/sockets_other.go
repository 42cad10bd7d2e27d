//go:build !linux

package chaos

import (
	"fmt"

	"github.com/lockcheck/lockcheck/lockspec"
)

// sockets needs Linux's /proc.
func sockets(int) (open, inherited int, err error) {
	return 0, 0, fmt.Errorf("%w: this system does not show what another process has open", lockspec.ErrUnsupported)
}
