package contract

import (
	"os"
	"strings"
)

// bootID names this start of this machine, where it has a name: monotonic
// times of two histories compare only within one.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
