package driver

import (
	"os"
	"testing"
)

// The test binary is the driver of its own tests, and, when their environment
// says so, a bad driver or a harness that is about to be killed.
const (
	envBad     = "LOCKCHECK_TEST_BAD"
	envHarness = "LOCKCHECK_TEST_HARNESS"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(EnvGuard) != "":
	case os.Getenv(envBad) != "":
		misbehave(os.Getenv(envBad))
		os.Exit(0)
	case os.Getenv(envConform) != "":
		misconform(os.Getenv(envConform))
		os.Exit(0)
	case os.Getenv(envHarness) != "" && os.Getenv(EnvDriver) == "":
		harnessToKill()
	}
	Main(openToy)
	os.Exit(m.Run())
}
