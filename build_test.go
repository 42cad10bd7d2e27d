package lockcheck_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestBuilds: the command builds for every system that it is offered for: for
// one processor of each, as it takes some minutes, and with LOCKCHECK_FULL=1 for
// both.
func TestBuilds(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			if usual := system == "darwin"; os.Getenv("LOCKCHECK_FULL") == "" && (arch == "arm64") != usual {
				continue
			}
			t.Run(system+"/"+arch, func(t *testing.T) {
				cmd := exec.Command("go", "build", "-o", os.DevNull, "./cmd/lockcheck")
				cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
