//go:build !unix

package explore

import "time"

// cpu is 0: this system does not tell.
func cpu() time.Duration { return 0 }
